
"use strict";
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const several = data.runs.length > 1;
const NOTHING = "–";
const sign = (label) => data.labels[label][0];
const signAndWord = (label) => data.labels[label].join(" ");
const GROUPS = ["all", ...data.types];
const STEP = 100;

// Text is only ever made into text nodes. A control character is shown as its picture; one that ends
// a paragraph would end its isolation too, and let an override of direction reach what follows.
const visible = (text) => text
  .replace(/\r\n?/g, "\n")
  .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/[\u0085\u2028\u2029]/g, "↵");

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null) continue;
    node.append(typeof child === "string" ? visible(child) : child);
  }
  return node;
}

function draw(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const thousands = (count) => count.toLocaleString("en");
const counted = (count, what) => `${thousands(count)} ${what}${count === 1 ? "" : "s"}`;

// ---- the videos ------------------------------------------------------------------------------

// Weights by group, and measures as Python rounded them; a group without elements has none.
const NO_ELEMENTS = [0, 0, 0, null, null, null];
const sums = (judged) => judged.scores?.map((given) => {
  const [e, c, total, p, r, f1] = given ?? NO_ELEMENTS;
  return { e, c, l: total - e - c, total, p, r, f1 };
}) ?? null;

const videos = data.videos.map((given, place) => {
  const video = { kinds: [], domain: null, ...given, place };
  video.elements = [];
  video.events.forEach(([, elements], event) => elements.forEach(([content, type, weight], number) =>
    video.elements.push({ id: `${event + 1}.${number + 1}`, content, type, weight, event })));
  video.runs = video.runs.map((one) => ({ candidate_events: [], matches: [], notes: [], votes: [], why: [], human: [], ...one }));
  video.sums = video.runs.map(sums);
  return video;
});
const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);
const byIndex = new Map(videos.map((video) => [wellFormed(video.index), video]));

const stats = (video, run, group) => {
  const groups = video.sums[run];
  return groups && groups[group].total ? groups[group] : null;
};
const sought = (element) => !state.type || element.type + 1 === state.type;
const total = (list, value) => list.reduce((sum, one) => sum + value(one), 0);
// The weight, of the chosen type, that the run entails and the other does not, and the reverse.
function moved(video) {
  const [one, other] = [video.runs[state.of].verdicts, video.runs[state.against].verdicts];
  const weight = (mine, theirs) => (one && other ? total(video.elements.filter((element, k) => sought(element) && mine[k] === "e" && theirs[k] !== "e"), (element) => element.weight) : 0);
  return { gained: weight(one, other), lost: weight(other, one) };
}
const labelled = (video) => video.runs[state.of].human.filter(([k]) => sought(video.elements[k])).length;
const disputed = (video) => video.runs[state.of].human.filter(([k, , , differs]) => differs && sought(video.elements[k])).length;
const unsteady = (video) => {
  const { votes } = video.runs[state.of];
  return video.elements.filter((element, k) => sought(element) && votes.some((vote) => vote[k] !== votes[0][k])).length;
};
const silent = (video) => {
  const judged = video.runs[state.of];
  return judged.status === "scored" ? video.events.filter((_, n) => !judged.matches.includes(n + 1) && video.elements.some((one) => one.event === n && sought(one))).length : 0;
};

// ---- the state of the page, which is in its address ------------------------------------------

const first = () => ({ video: null, q: "", type: 0, kind: "", domain: "", only: "", sort: "f1", down: false, of: data.runs.length - 1, against: 0 });
let state = first();
let found = [];
let leftOut = [];
let shown = 0;
let scrolled = 0;

const named = (run) => data.runs[run].letter;
const having = (...names) => (video) => Number(names.includes(video.runs[state.of].status));
// A filter: its name, its title, how much a video has of what it filters by (none: the video is left
// out), what that is called, and which runs must have scored the video.
const filter = (name, title, much, called = null, runs = () => []) => ({ name, title: () => (typeof title === "string" ? title : title()), much, called, runs });
const mine = () => [state.of];
const both = () => [state.of, state.against];
const ONLY = [
  filter("", "all videos", () => 1),
  filter("scored", "scored", having("scored")),
  filter("unscored", "unscored", having("unscored")),
  filter("uncaptioned", "without a caption or verdict", having("uncaptioned", "unjudged")),
  filter("notes", "with notes", (video) => video.runs[state.of].notes.length, (n) => counted(n, "note")),
  filter("contradicted", "with contradicted elements", (video) => stats(video, state.of, state.type)?.c ?? 0, (n) => `weight ${n} contradicted`, mine),
  filter("lacking", "with lacking elements", (video) => stats(video, state.of, state.type)?.l ?? 0, (n) => `weight ${n} lacking`, mine),
  filter("silent", "with unmatched reference events", silent, (n) => counted(n, "reference event") + " unmatched", mine),
  filter("loose", "with unmatched candidate events", (video) => video.runs[state.of].matches.filter((one) => one === null).length, (n) => counted(n, "candidate event") + " unmatched", mine),
  ...(videos.some((video) => video.runs.some((one) => one.votes.length)) ? [filter("unsteady", "repeats differ", unsteady, (n) => `repeats differ on ${n}`, mine)] : []),
  ...(data.labelled ? [
    filter("labelled", "labelled by human raters", labelled, (n) => counted(n, "label")),
    filter("disputed", "human raters differ from the judge", disputed, (n) => `human raters differ on ${n}`, mine),
  ] : []),
  ...(several ? [
    filter("gained", () => `gained: ${named(state.of)} entails, ${named(state.against)} does not`, (video) => moved(video).gained, (n) => `weight ${n} gained`, both),
    filter("dropped", () => `lost: ${named(state.against)} entails, ${named(state.of)} does not`, (video) => moved(video).lost, (n) => `weight ${n} lost`, both),
    filter("split", "gained or lost", (video) => total(Object.values(moved(video)), (one) => one), (n, video) => `weight ${moved(video).gained} gained, ${moved(video).lost} lost`, both),
  ] : []),
];
const only = () => ONLY.find((one) => one.name === state.only);

const order = new Intl.Collator("en", { numeric: true });
// Pairs of runs in the order of the gaps: A and B, A and C, …, B and C, …
const PAIRS = data.runs.flatMap((_, run) => data.runs.slice(run + 1).map((_, n) => `${run} ${run + 1 + n}`));
// A gap is given as the later − the earlier run; of the reverse, only the sign differs.
const reversed = (gap) => ({ "+": "-", "-": "+" }[gap[0]] ?? "") + gap.replace(/^[+-]/, "");
function gap(video) {
  const pair = [state.of, state.against].sort((a, b) => a - b);
  const given = video.gaps[PAIRS.indexOf(pair.join(" "))][state.type];
  return given === null || state.of > state.against ? given : reversed(given);
}
const asNumber = (given) => (given === null || given === undefined ? null : Number(given));
const measure = (name) => (video) => asNumber(stats(video, state.of, state.type)?.[name]);
const SORTS = {
  f1: ["F1", measure("f1")],
  p: ["P", measure("p")],
  r: ["R", measure("r")],
  lost: ["Weight", (video) => { const one = stats(video, state.of, state.type); return one ? one.total - one.e : null; }],
  events: ["Events", (video) => video.events.length],
  elements: ["Elements", (video) => video.elements.length],
  index: ["Video", (video) => video.index],
  place: ["as annotated", (video) => video.place],
  much: ["Amount", (video) => only().much(video)],
  ...(several ? { gap: ["Δ F1", (video) => asNumber(gap(video))] } : {}),
};
const ORDERS = [
  ["f1", false, "worst F1 first"], ["f1", true, "best F1 first"], ["p", false, "worst precision first"], ["r", false, "worst recall first"],
  ["lost", true, "most weight lost"], ["events", true, "most events"], ["elements", true, "most elements"],
  ["index", false, "by index"], ["place", false, "as annotated"], ["much", true, "by how much"],
  ...(several ? [["gap", false, "most behind"], ["gap", true, "most ahead"]] : []),
];

function address(changed = {}) {
  const next = { ...state, ...changed };
  const given = new URLSearchParams();
  const plain = first();
  for (const [name, value] of Object.entries(next))
    if (value !== plain[name]) given.set(name, name === "type" ? GROUPS[value] : name === "of" || name === "against" ? data.runs[value].letter : name === "down" ? "1" : value);
  return "#" + given;
}

// Anyone may have written the hash: only known values are taken from it.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const next = first();
  next.video = given.get("video");
  next.q = given.get("q") ?? "";
  next.type = Math.max(0, GROUPS.indexOf(given.get("type") ?? "all"));
  if (data.characteristics.includes(given.get("kind"))) next.kind = given.get("kind");
  if (data.domains.includes(given.get("domain"))) next.domain = given.get("domain");
  if (ONLY.some((one) => one.name === given.get("only"))) next.only = given.get("only");
  if (Object.hasOwn(SORTS, given.get("sort") ?? "")) next.sort = given.get("sort");
  next.down = given.get("down") === "1";
  if (next.sort === "much" && !ONLY.find((one) => one.name === next.only).called) Object.assign(next, { sort: "f1", down: false });
  for (const name of ["of", "against"]) {
    const run = data.runs.findIndex((one) => one.letter === given.get(name));
    if (run >= 0) next[name] = run;
  }
  if (several && next.of === next.against) next.against = next.of ? 0 : 1;
  state = next;
}

function remember() {
  if (address() === location.hash || (address() === "#" && !location.hash)) return;
  try {
    history.replaceState(null, "", address());
  } catch { /* some browsers refuse frequent changes: only the address is late */ }
}

// ---- the list --------------------------------------------------------------------------------

const haystacks = new Map();
function haystack(video) {
  let text = haystacks.get(video);
  if (text === undefined) {
    text = [video.index, video.domain === null ? "" : data.domains[video.domain],
      ...video.events.map(([sentence]) => sentence), ...video.elements.map((one) => one.content),
      ...video.runs.map((one) => one.caption ?? "")].join("\n").toLowerCase();
    haystacks.set(video, text);
  }
  return text;
}

function choose() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = state.kind ? data.characteristics.indexOf(state.kind) : -1;
  const domain = state.domain ? data.domains.indexOf(state.domain) : -1;
  const value = SORTS[state.sort][1];
  const sign = state.down ? -1 : 1;
  found = videos;
  leftOut = [];
  // A video is counted by the first filter that leaves it out.
  const keep = (why, test) => {
    const kept = found.filter(test);
    if (kept.length < found.length) leftOut.push(`${thousands(found.length - kept.length)} ${why}`);
    found = kept;
  };
  if (kind >= 0) keep(`not ${state.kind}`, (video) => video.kinds.includes(kind));
  if (domain >= 0) keep("of other domains or none", (video) => video.domain === domain);
  if (state.type) keep(`without ${GROUPS[state.type]} elements`, (video) => video.elements.some(sought));
  const runs = only().runs();
  if (runs.length) keep(`not scored${several ? ` in ${runs.length > 1 ? "both " : ""}${runs.map(named).sort().join(" and ")}` : ""}`, (video) => runs.every((run) => video.runs[run].status === "scored"));
  if (state.only) keep(`not “${only().title()}”${state.type && only().called ? ` (${GROUPS[state.type]})` : ""}`, only().much);
  if (words.length) keep("without the words searched for", (video) => words.every((word) => haystack(video).includes(word)));
  found = [...found];
  const keys = new Map(found.map((video) => [video, value(video)]));
  found.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    // Videos without a value come last in either direction.
    if (a === null || b === null) return (a === null) - (b === null) || one.place - other.place;
    const way = typeof a === "string" ? order.compare(a, b) : a - b;
    return sign * way || one.place - other.place;
  });
}

const COLUMNS = ["index", "f1", ...(several ? ["gap"] : []), "p", "r", "lost", "events", "elements"];
const ASIDE = new Set(["p", "r", "events", "elements"]);

function heading(name) {
  const [title] = SORTS[name];
  const arrow = state.sort === name ? (state.down ? " ↓" : " ↑") : "";
  const button = make("button", { type: "button", "data-sort": name }, title + arrow);
  return make("th", {
    scope: "col", class: [name === "index" ? "first" : "", name === "lost" ? "lost" : "", ASIDE.has(name) ? "aside" : ""].join(" ").trim() || null,
    "aria-sort": state.sort === name ? (state.down ? "descending" : "ascending") : "none",
  }, button);
}

function bar(one) {
  const svg = draw("svg", { class: "weights", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
  let start = 0;
  for (const kind of ["e", "c", "l"]) {
    const wide = (100 * one[kind]) / one.total;
    if (wide) svg.append(draw("rect", { class: "part " + kind, x: start, y: 0, width: wide, height: 12 }));
    start += wide;
  }
  return svg;
}

const STATUS = { unscored: "unscored", uncaptioned: "no caption", unjudged: "not judged" };

function badges(video) {
  const judged = video.runs[state.of];
  const list = [];
  if (STATUS[judged.status]) list.push(make("span", { class: "badge alarm" }, STATUS[judged.status]));
  if (state.only !== "notes" && judged.notes.length) list.push(make("span", { class: "badge" }, "notes"));
  if (state.only !== "disputed" && disputed(video)) list.push(make("span", { class: "badge" }, "human raters differ"));
  if (state.only !== "unsteady" && unsteady(video)) list.push(make("span", { class: "badge" }, "repeats differ"));
  if (only().called) list.push(make("span", { class: "badge" }, only().called(only().much(video), video)));
  return list;
}

const withMinus = (gap) => (gap === null ? NOTHING : gap.replace("-", "−"));

function row(video) {
  const one = stats(video, state.of, state.type);
  const caption = video.runs[state.of].caption;
  const cells = {
    index: () => make("td", {}, make("a", { class: "name", href: address({ video: video.index }) }, make("bdi", {}, video.index)), ...badges(video),
      caption ? make("span", { class: "snippet", dir: "auto" }, caption.slice(0, 160)) : null),
    lost: () => make("td", { class: "lost", title: one && `entailed ${one.e}, contradicted ${one.c}, lacking ${one.l} of ${one.total}` },
      one ? [bar(one), make("span", { class: "parts" }, ...["e", "c", "l"].map((kind) => make("span", {}, `${sign(kind)}${one[kind]}`)))] : NOTHING),
    gap: () => make("td", {}, withMinus(gap(video))),
    events: () => make("td", { class: "aside" }, thousands(video.events.length)),
    elements: () => make("td", { class: "aside" }, thousands(video.elements.length)),
  };
  return make("tr", { "data-place": video.place },
    COLUMNS.map((name) => (cells[name] ? cells[name]() : make("td", { class: ASIDE.has(name) ? "aside" : null }, one ? one[name] : NOTHING))));
}

function showMore() {
  const next = found.slice(shown, shown + STEP);
  at("body").append(...next.map(row));
  shown += next.length;
  at("more").hidden = shown >= found.length;
  at("more").textContent = `Show ${Math.min(STEP, found.length - shown)} more`;
}

function showList() {
  choose();
  at("columns").replaceChildren(...COLUMNS.map(heading));
  at("body").replaceChildren();
  shown = 0;
  showMore();
  const scored = found.filter((video) => stats(video, state.of, state.type)).length;
  at("count").textContent = `${counted(found.length, "video")} of ${thousands(videos.length)}, ${thousands(scored)} scored`
    + (several ? ` in ${named(state.of)}; Δ is ${named(state.of)} − ${named(state.against)}` : "")
    + (leftOut.length ? `. Left out: ${leftOut.join(", ")}.` : "");
  at("none").hidden = found.length > 0;
  at("rows").hidden = !found.length;
  for (const one of ONLY.filter((each) => each.runs().length > 1)) at("only").querySelector(`[value="${one.name}"]`).textContent = one.title();
  at("sort").querySelector('[value="much true"]').hidden = !only().called;
  for (const name of ["kind", "domain", "only"]) at(name).value = state[name];
  at("type").value = String(state.type);
  if (several) {
    at("of").value = String(state.of);
    at("against").value = String(state.against);
    const [one, other] = both().map(named);
    for (const [value, title] of [["gap false", `${one} most behind ${other}`], ["gap true", `${one} most ahead of ${other}`]])
      at("sort").querySelector(`[value="${value}"]`).textContent = title;
  }
  if (at("q").value !== state.q) at("q").value = state.q;
  at("sort").value = `${state.sort} ${state.down}`;
  if (at("sort").selectedIndex < 0) at("sort").value = "";
}

// ---- the card --------------------------------------------------------------------------------

const chip = (verdict, lead = "") => make("span", { class: "verdict " + verdict }, lead + signAndWord(verdict));
const letter = (run) => make("span", { class: "letter" }, data.runs[run].letter);
const text = (tag, content, name = "text") => make(tag, { class: name, dir: "auto" }, content);

function arithmetic(video, run) {
  const judged = video.runs[run];
  const box = make("div", { class: "result" }, several ? make("h3", {}, letter(run), " ", make("bdi", {}, data.runs[run].name)) : null);
  if (judged.status !== "scored") {
    const why = { unscored: `Unscored: ${judged.reason ?? ""}`, unjudged: "This caption has no verdict yet." }[judged.status];
    box.append(...(why ? [make("p", { class: "why", dir: "auto" }, why)] : []), make("p", { class: "soft" }, "Not scored: it enters no mean."));
  } else {
    const all = video.sums[run][0];
    const mentioned = all.e + all.c;
    box.append(make("div", {},
      make("p", { class: "sum" }, make("b", { class: "big" }, "F1 " + all.f1)),
      make("p", { class: "sum" }, `P = entailed / (entailed + contradicted) = ${all.e} / ${mentioned} = ${all.p}` + (mentioned ? "" : " (nothing mentioned)")),
      make("p", { class: "sum" }, `R = entailed / all = ${all.e} / ${all.total} = ${all.r}`),
      make("p", { class: "sum" }, `F1 = 2 × ${all.e} / (${mentioned} + ${all.total}) = ${all.f1}`)));
    const body = GROUPS.map((group, g) => [group, video.sums[run][g]]).filter(([, one]) => one.total).map(([group, one]) =>
      make("tr", {}, make("th", { scope: "row" }, group), ...[one.e, one.c, one.l, one.total].map((n) => make("td", {}, thousands(n))),
        ...[one.p, one.r, one.f1].map((value) => make("td", {}, value))));
    box.append(make("details", { open: !several }, make("summary", {}, "Weights by type"),
      make("div", { class: "scroll" }, make("table", { class: "sums" },
        make("thead", {}, make("tr", {}, ...["Type", ...["e", "c", "l"].map(sign), "all", "P", "R", "F1"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, body)))));
  }
  if (judged.notes.length)
    box.append(make("div", { class: "notes" }, make("p", {}, "Notes:"), make("ul", {}, judged.notes.map((note) => make("li", { dir: "auto", class: "text" }, note)))));
  return box;
}

// The places of the candidate events in the caption, word by word; null if they are not there in order.
function located(caption, events) {
  const words = [...caption.matchAll(/\S+/g)];
  const places = [];
  let from = 0;
  for (const event of events) {
    const wanted = event.split(/\s+/).filter(Boolean);
    if (!wanted.length) return null;
    let start = from;
    while (start + wanted.length <= words.length && !wanted.every((word, k) => words[start + k][0] === word)) start += 1;
    if (start + wanted.length > words.length) return null;
    const last = words[start + wanted.length - 1];
    places.push([words[start].index, last.index + last[0].length]);
    from = start + wanted.length;
  }
  return places;
}

function captionOf(video, run) {
  const judged = video.runs[run];
  const box = make("section", { class: "caption", "aria-label": "Caption" + (several ? " of " + data.runs[run].letter : ""), "data-run": run });
  box.append(make("h3", {}, "Caption", several ? [" ", letter(run)] : null));
  if (judged.caption === undefined && !judged.candidate_events.length) {
    box.append(make("p", { class: "soft" }, judged.status === "scored" ? "The caption is not in the files of this run, and has no events." : "There is no caption of this video."));
    return box;
  }
  if (judged.votes.length) box.append(make("p", { class: "soft" }, `Events and matches are those of the first of ${judged.votes.length} repeats; verdicts are the majority's.`));
  if (judged.caption !== undefined && !judged.caption.trim()) { box.append(make("p", { class: "soft" }, "The caption is empty.")); return box; }
  const piece = (event, number) => {
    const match = judged.matches[number];
    return make("div", { class: "piece" + (match ? "" : " loose"), "data-run": run, "data-piece": number, "data-match": match ?? null },
      make("span", { class: "tag" }, `${number + 1} ` + (match ? `→ event ${match}` : "matches no event")), text("span", event));
  };
  const between = (words) => make("div", { class: "between" }, make("span", { class: "tag" }, "in no candidate event"), text("span", words));
  const places = judged.caption === undefined ? null : located(judged.caption, judged.candidate_events);
  if (!judged.candidate_events.length) { box.append(judged.status === "scored" ? between(judged.caption) : text("p", judged.caption, "text between")); return box; }
  if (places) {
    let end = 0;
    places.forEach(([start, stop], number) => {
      const before = judged.caption.slice(end, start);
      if (before.trim()) box.append(between(before.trim()));
      box.append(piece(judged.caption.slice(start, stop), number));
      end = stop;
    });
    const rest = judged.caption.slice(end).trim();
    if (rest) box.append(between(rest));
  } else {
    box.append(...judged.candidate_events.map(piece));
    box.append(judged.caption === undefined
      ? make("p", { class: "soft" }, "The caption itself is not in the files of this run.")
      : make("details", {}, make("summary", {}, "The caption as it was written"), text("p", judged.caption, "text between")));
  }
  return box;
}

function elementOf(video, place) {
  const element = video.elements[place];
  const verdicts = video.runs.map((one) => (one.status === "scored" ? one.verdicts[place] : null));
  const known = verdicts.filter(Boolean);
  const item = make("li", { class: known.some((one) => (one === "e") !== (known[0] === "e")) ? "differ" : null, "data-element": element.id });
  const by = make("span", { class: "by" });
  verdicts.forEach((verdict, run) => {
    const lead = several ? data.runs[run].letter + " " : "";
    by.append(verdict ? chip(verdict, lead) : make("span", { class: "soft" }, lead + STATUS[video.runs[run].status]));
  });
  const shownElement = make("span", {}, text("span", element.content, element.weight === 3 ? "text w3" : "text"),
    make("span", { class: "meta" }, `${element.id} · ${data.types[element.type]} · weight ${element.weight}`));
  video.runs.forEach((judged, run) => {
    const lead = several ? data.runs[run].letter + ": " : "";
    if (judged.votes.length) {
      const votes = judged.votes.map((one) => one[place]);
      const apart = votes.some((vote) => vote !== votes[0]);
      shownElement.append(make("span", { class: "meta" }, `${lead}votes ${votes.map(sign).join(" ")}${apart ? " (not unanimous)" : ""}`));
    }
    judged.why.filter(([k]) => k === place).forEach(([, reason]) =>
      shownElement.append(make("span", { class: "meta why" }, `${lead}reason: `, make("bdi", {}, reason))));
    const labels = judged.human.filter(([k]) => k === place);
    if (labels.length)
      shownElement.append(make("span", { class: "human" }, lead + "human: ", labels.map(([, rater, label, differs], n) =>
        make("span", { class: differs ? "unlike" : null }, (n ? ", " : "") + signAndWord(label), data.raters[rater] ? [" (", make("bdi", {}, data.raters[rater]), ")"] : null, differs ? " ≠ judge" : null))));
  });
  item.append(by, shownElement);
  return item;
}

function referenceOf(video, runs) {
  const box = make("section", { class: "reference", "aria-label": "Reference events" }, make("h3", {}, "Reference events"));
  let place = 0;
  video.events.forEach(([sentence, elements], number) => {
    const matched = runs.map((run) => {
      const from = video.runs[run].matches.flatMap((match, n) => (match === number + 1 ? [n + 1] : []));
      if (video.runs[run].status !== "scored") return null;
      return (several ? data.runs[run].letter + " " : "") + (from.join(", ") || "none");
    }).filter(Boolean);
    const silent = matched.length && runs.every((run) => !video.runs[run].matches.includes(number + 1));
    box.append(make("div", { class: "event" + (silent ? " silent" : ""), "data-event": number + 1 },
      make("span", { class: "tag" }, `Event ${number + 1}${matched.length ? ", matched by: " + matched.join("; ") : ""}`), text("p", sentence),
      make("ul", { class: "elements" }, elements.map(() => elementOf(video, place++)))));
  });
  return box;
}

function stripOf(video) {
  if (!video.frames) return null;
  if (typeof video.frames === "string") return make("p", { class: "soft" }, "No frames: ", make("bdi", {}, video.frames));
  return make("div", { class: "strip", tabindex: "0", role: "region", "aria-label": "Frames of the video" }, video.frames.map(([seconds, jpeg]) =>
    make("figure", {}, make("img", { src: "data:image/jpeg;base64," + jpeg, alt: `Frame at ${seconds} s` }), make("figcaption", {}, seconds + " s"))));
}

function neighbours(video) {
  const here = found.indexOf(video);
  return here < 0 ? [null, found[0] ?? null, here] : [found[here - 1] ?? null, found[here + 1] ?? null, here];
}

const titled = document.title;

function showCard() {
  const video = state.video === null ? null : byIndex.get(state.video);
  document.title = video ? `${visible(video.index)} – ${titled}` : titled;
  const was = document.body.classList.contains("reading");
  if (!was) scrolled = scrollY;
  document.body.classList.toggle("reading", Boolean(video));
  at("card").hidden = !video;
  at("card").replaceChildren();
  if (!video) {
    if (was) {
      scrollTo(0, scrolled);
      const last = at("body").querySelector(`[data-place="${at("card").dataset.place}"]`);
      if (last) { last.classList.add("last-open"); last.querySelector("a").focus({ preventScroll: true }); last.scrollIntoView({ block: "nearest" }); }
    }
    if (state.video !== null) at("count").textContent = `There is no video ${visible(state.video.slice(0, 100))} in this report.`;
    return;
  }
  at("card").dataset.place = video.place;
  const [before, after, here] = neighbours(video);
  const word = (label) => make("span", { class: "word" }, label);
  const go = (to, id, name, ...label) => {
    const button = make("button", { type: "button", id, disabled: !to, "aria-label": name }, label);
    if (to) button.addEventListener("click", () => move(to));
    return button;
  };
  const back = make("button", { type: "button", id: "back", "aria-label": "All videos" }, "←", word(" All"), " videos ", make("kbd", { "aria-hidden": "true" }, "Esc"));
  back.addEventListener("click", leave);
  const link = make("button", { type: "button", id: "link" }, "Copy link");
  link.addEventListener("click", () => copy(location.href.split("#")[0] + "#" + new URLSearchParams({ video: video.index }), link));
  const facts = [
    video.kinds.map((kind) => data.characteristics[kind]).join(", "), video.domain === null ? "" : data.domains[video.domain],
    counted(video.events.length, "event"), counted(video.elements.length, "element"), video.file ? `file ${video.file}` : "",
  ].filter(Boolean).join(" · ");
  const pair = several ? [state.of, state.against].sort((a, b) => a - b) : [state.of];
  const others = data.runs.map((_, run) => run).filter((run) => !pair.includes(run));
  const matching = make("div", { class: "matching" + (pair.length > 1 ? " both" : "") },
    captionOf(video, pair[0]), referenceOf(video, data.runs.map((_, run) => run)), pair.length > 1 ? captionOf(video, pair[1]) : null);
  at("card").append(
    make("div", { class: "bar-top" }, back, make("span", { class: "grow" }), make("span", { class: "soft where" }, here < 0 ? "not in the list" : `${here + 1} of ${found.length}`),
      go(before, "previous", "Previous video", "←", word(" Previous")), go(after, "next", "Next video", word("Next "), "→"), link),
    make("div", { class: "lead" }, make("h1", { id: "card-title", tabindex: "-1" }, make("bdi", {}, video.index)), make("p", { class: "soft" }, facts)),
    ...[stripOf(video)].filter(Boolean),
    make("div", { class: "results" }, data.runs.map((_, run) => arithmetic(video, run))), matching,
    ...(others.length ? [make("details", {}, make("summary", {}, "Captions of the other runs"), make("div", { class: "results" }, others.map((run) => captionOf(video, run))))] : []));
  if (!was) scrollTo(0, 0);
  at("card-title").focus({ preventScroll: true });
  connect(matching);
}

// Lines from each part of a caption to the event that it matches; both also say so in text.
function connect(matching) {
  matching.querySelector(".lines")?.remove();
  const svg = draw("svg", { class: "lines", "aria-hidden": "true" });
  const zero = matching.getBoundingClientRect();
  const pieces = matching.querySelectorAll(".piece[data-match]");
  for (const piece of pieces) {
    const event = matching.querySelector(`.event[data-event="${piece.dataset.match}"]`);
    if (!event) continue;
    const [a, b] = [piece.getBoundingClientRect(), event.getBoundingClientRect()];
    const left = a.left < b.left;
    const [x, y, to, high] = [(left ? a.right : a.left) - zero.left, a.top + a.height / 2 - zero.top, (left ? b.left : b.right) - zero.left, b.top + 18 - zero.top];
    const middle = (x + to) / 2;
    const path = draw("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${high} ${to} ${high}` });
    const light = (on) => { for (const one of [piece, event, path]) one.classList.toggle("lit", on); };
    piece.onpointerenter = () => light(true);
    piece.onpointerleave = () => light(false);
    svg.append(path);
  }
  matching.append(svg);
}

// ---- actions ---------------------------------------------------------------------------------

function show() {
  showList();
  showCard();
}

function change(changed) {
  state = { ...state, ...changed };
  remember();
  show();
}

function move(video) {
  change({ video: video.index });
  scrollTo(0, 0);
}

function leave() {
  location.hash = address({ video: null });
}

async function copy(content, button) {
  const label = button.textContent;
  let done = true;
  try {
    await navigator.clipboard.writeText(content);
  } catch {
    // A page from a file has no clipboard in some browsers: select the text instead.
    const area = make("textarea", { readonly: true });
    area.value = content;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

function rowFocus(step) {
  const links = [...at("body").querySelectorAll("a.name")];
  const here = links.indexOf(document.activeElement);
  const last = links.findIndex((one) => one.closest("tr").dataset.place === at("card").dataset.place);
  const next = links[here < 0 ? (last < 0 ? 0 : last) : Math.max(0, Math.min(links.length - 1, here + step))];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "center" });
}

function help() {
  if (!at("keys").open) at("keys").showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || at("keys").open) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape" && event.target === at("q")) { at("q").value = ""; change({ q: "" }); }
    return;
  }
  const reading = document.body.classList.contains("reading");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const step = key === "j" || (reading && key === "ArrowRight") ? 1 : key === "k" || (reading && key === "ArrowLeft") ? -1 : 0;
  if (key === "/") { event.preventDefault(); if (reading) leave(); at("list").scrollIntoView(); setTimeout(() => { at("q").focus(); at("q").select(); }); }
  else if (key === "?") { event.preventDefault(); help(); }
  else if (key === "Escape" && reading) { event.preventDefault(); leave(); }
  else if (step && !event.target.closest(".strip")) {
    event.preventDefault();
    if (reading) at(step > 0 ? "next" : "previous").click();
    else rowFocus(step);
  }
});

function fill(id, options) {
  at(id).replaceChildren(...options.map(([value, name]) => make("option", { value }, name)));
}

fill("type", GROUPS.map((name, n) => [n, name === "all" ? "all elements" : name]));
fill("kind", [["", "any"], ...data.characteristics.filter((_, n) => videos.some((video) => video.kinds.includes(n))).map((name) => [name, name])]);
fill("domain", [["", "any"], ...data.domains.map((name) => [name, name])]);
fill("only", ONLY.map((one) => [one.name, one.title()]));
fill("sort", [...ORDERS.map(([name, down, title]) => [`${name} ${down}`, title]), ["", "by a column"]]);
if (several) for (const id of ["of", "against"]) fill(id, data.runs.map((one, n) => [n, `${one.letter} ${one.name}`]));

let typing = 0;
at("q").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => change({ q: at("q").value }), 120); });
at("only").addEventListener("change", () => {
  const next = ONLY.find((one) => one.name === at("only").value);
  change({ only: next.name, ...(next.called ? { sort: "much", down: true } : state.sort === "much" ? { sort: "f1", down: false } : {}) });
});
for (const id of ["kind", "domain"]) at(id).addEventListener("change", () => change({ [id]: at(id).value }));
at("type").addEventListener("change", () => change({ type: Number(at("type").value) }));
// A run is never compared with itself: the two swap.
if (several) for (const [id, other] of [["of", "against"], ["against", "of"]]) at(id).addEventListener("change", () => {
  const run = Number(at(id).value);
  change(run === state[other] ? { [id]: run, [other]: state[id] } : { [id]: run });
});
at("sort").addEventListener("change", () => {
  const [sort, down] = at("sort").value.split(" ");
  if (sort) change({ sort, down: down === "true" });
});
at("columns").addEventListener("click", (event) => {
  const name = event.target.closest("button")?.dataset.sort;
  if (!name) return;
  const down = state.sort === name ? !state.down : ["lost", "events", "elements"].includes(name);
  change({ sort: name, down });
  at("columns").querySelector(`[data-sort="${name}"]`).focus();
});
at("filters").addEventListener("submit", (event) => event.preventDefault());
const clear = () => { at("q").value = ""; change({ ...first(), video: state.video, of: state.of, against: state.against }); };
at("clear").addEventListener("click", clear);
at("none-clear").addEventListener("click", () => { clear(); at("q").focus(); });
at("body").addEventListener("click", (event) => {
  if (!event.target.closest("a") && !getSelection().toString()) event.target.closest("tr")?.querySelector("a").click();
});
at("more").addEventListener("click", showMore);
new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting) && shown < found.length) showMore(); }, { rootMargin: "600px" }).observe(at("more"));
for (const link of document.querySelectorAll("a[data-video]")) link.href = "#" + new URLSearchParams({ video: videos[link.dataset.video].index });
for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(at(button.dataset.copy).textContent, button));
at("keys-open").addEventListener("click", help);
at("keys-close").addEventListener("click", () => at("keys").close());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); if (document.body.classList.contains("reading")) leave(); at("list").focus(); at("list").scrollIntoView(); });

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
const nameTheme = () => { at("theme").textContent = theme() === "dark" ? "Light" : "Dark"; };
at("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  try { localStorage.setItem("capeval-report-theme", theme()); } catch { /* the choice is not remembered */ }
  nameTheme();
});
try {
  const kept = localStorage.getItem("capeval-report-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch { /* a browser without storage follows the system */ }
dark.addEventListener("change", nameTheme);
nameTheme();

addEventListener("hashchange", () => { readAddress(); show(); });
let resized = 0;
addEventListener("resize", () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(() => { const matching = document.querySelector("#card .matching"); if (matching) connect(matching); }); });
// A picture that loads late moves the ends of the lines.
addEventListener("load", (event) => { const matching = document.querySelector("#card .matching"); if (matching && event.target.tagName === "IMG") connect(matching); }, true);
readAddress();
show();

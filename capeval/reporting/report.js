
"use strict";
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const several = data.runs.length > 1;
const NOTHING = "–";
const GROUPS = ["all", ...data.types];
const PAGE = 100;
const STATUS = { unscored: "unscored", uncaptioned: "no caption", unjudged: "not judged" };

// Text is only ever made into text nodes. A control character is shown as its picture; one that
// ends a paragraph would end its isolation too, and let an override of direction reach the rest.
const visible = (text) => text
  .replace(/\r\n?/g, "\n")
  .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/[\u0085\u2028\u2029]/g, "↵");

function make(tag, attributes, ...children) {
  const space = ["svg", "path"].includes(tag) ? "2000/svg" : "1999/xhtml";
  const node = document.createElementNS(`http://www.w3.org/${space}`, tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (value !== undefined && value !== null && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  for (const child of children.flat(2))
    if (child !== undefined && child !== null)
      node.append(typeof child === "string" ? visible(child) : child);
  return node;
}

const thousands = (count) => count.toLocaleString("en");
const counted = (count, what) => `${thousands(count)} ${what}${count === 1 ? "" : "s"}`;
const sign = (label) => data.labels[label][0];
const signAndWord = (label) => data.labels[label].join(" ");
const letterOf = (run) => data.runs[run].letter;
const bdi = (text) => make("bdi", {}, text);
const soft = (...content) => make("p", { class: "soft" }, ...content);
const meta = (...content) => make("span", { class: "meta" }, ...content);
const text = (tag, content, name = "text") => make(tag, { class: name, dir: "auto" }, content);
const badge = (label, name = "badge") => make("span", { class: name }, label);
const letter = (run) => badge(letterOf(run), "letter");
const chip = (verdict, lead = "") =>
  make("span", { class: `verdict ${verdict}` }, lead + signAndWord(verdict));

// ---- the videos and their elements -----------------------------------------------------------

const NO_RESULT = { candidate_events: [], matches: [], notes: [], votes: [], why: [], human: [] };

// Weights by group, and measures as Python rounded them; null for a group without elements.
function sums(given) {
  if (!given) return null;
  const [e, c, total, p, r, f1] = given;
  return { e, c, l: total - e - c, total, p, r, f1 };
}

const videos = data.videos.map((given, place) => {
  const video = { ...given, place, elements: [] };
  video.kinds = (given.kinds ?? []).map((kind) => data.characteristics[kind]);
  video.runs = given.runs.map((one) => ({ ...NO_RESULT, ...one, sums: one.scores?.map(sums) }));
  video.events.forEach(([, elements], event) => elements.forEach(([content, type, weight], n) =>
    video.elements.push({
      video, content, weight, event: event + 1, type: data.types[type],
      id: `${event + 1}.${n + 1}`, place: video.elements.length,
    })));
  return video;
});
const byIndex = new Map(videos.map((video) => [video.index, video]));

// Of the runs shown, the last is looked into, and compared with the first.
let runs = [0];
const last = () => runs.at(-1);
const mine = (video) => video.runs[last()];
const group = () => GROUPS.indexOf(state.type || "all");
const scores = (video, run = last()) => video.runs[run].sums?.[group()];
const verdictOf = (element, run) => element.video.runs[run].verdicts?.[element.place];
const entailed = (element, run) => verdictOf(element, run) === "e";
const labelsOf = (element, run) =>
  element.video.runs[run].human.filter(([place]) => place === element.place);
const votesOf = (element, run) => element.video.runs[run].votes.map((vote) => vote[element.place]);
const gap = (video) => video.gaps[letterOf(runs[0]) + letterOf(last())][group()];

const judged = (element) => mine(element.video).verdicts && element.video.runs[runs[0]].verdicts;
const AMONG = {
  differ: (one) => new Set(runs.map((run) => verdictOf(one, run)).filter(Boolean)).size > 1,
  gained: (one) => judged(one) && entailed(one, last()) && !entailed(one, runs[0]),
  lost: (one) => judged(one) && !entailed(one, last()) && entailed(one, runs[0]),
  unmatched: (one) => mine(one.video).verdicts && !mine(one.video).matches.includes(one.event),
  unsteady: (one) => new Set(votesOf(one, last())).size > 1,
  labelled: (one) => labelsOf(one, last()).length,
  disputed: (one) => labelsOf(one, last()).some(([, , , differs]) => differs),
};
const ONLY = {
  scored: (one) => one.status === "scored",
  unscored: (one) => one.status === "unscored",
  uncaptioned: (one) => one.status === "uncaptioned" || one.status === "unjudged",
  notes: (one) => one.notes.length,
  loose: (one) => one.matches.includes(null),
};
const sought = (element) => (!state.type || element.type === state.type)
  && (!state.weight || element.weight === Number(state.weight))
  && (!state.verdict || verdictOf(element, last()) === state.verdict)
  && (!state.among || AMONG[state.among](element));
const narrowed = () => Boolean(state.weight || state.verdict || state.among);

const haystacks = new Map();
function haystack(row) {
  if (!haystacks.has(row)) {
    const texts = row.video ? [row.video.index, row.content]
      : [row.index, data.domains[row.domain], ...row.events.map(([sentence]) => sentence),
        ...row.elements.map((one) => one.content), ...row.runs.map((one) => one.caption)];
    haystacks.set(row, texts.join("\n").toLowerCase());
  }
  return haystacks.get(row);
}

// ---- the state of the page, which is in its address ------------------------------------------

const form = at("filters");
const controls = [...form.querySelectorAll("input, select")];
const boxes = [...document.querySelectorAll("#runs input")];
let state = {};

function readForm() {
  if (!boxes.some((box) => box.checked)) for (const box of boxes) box.checked = true;
  const checked = boxes.filter((box) => box.checked);
  const run = checked.length < boxes.length ? checked.map((box) => box.value).join(".") : "";
  return { ...Object.fromEntries(new FormData(form)), run };
}

function address(changed = {}) {
  const given = Object.entries({ ...state, ...changed }).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(given)}`;
}

// Anyone may have written the hash: only what the form offers is taken from it.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const named = (name) => given.get(name) ?? "";
  for (const control of controls) {
    control.value = named(control.name);
    if (control.selectedIndex < 0) control.value = "";
  }
  const letters = named("run").split(".");
  for (const box of boxes) box.checked = letters.includes(box.value);
  const view = named("view") === "elements" ? "elements" : "";
  const [video, element, sort] = ["video", "element", "sort"].map(named);
  state = { video, element, view, sort, ...readForm() };
}

// What is typed replaces the entry of the history; all else can be undone by going back.
function go(changed, replace = false) {
  state = { ...state, ...changed };
  if (address() !== (location.hash || "#")) {
    try {
      history[replace ? "replaceState" : "pushState"](null, "", address());
    } catch { /* some browsers refuse frequent changes: only the address is late */ }
  }
  showList();
  showCard();
}

// ---- the list --------------------------------------------------------------------------------

let found = [];
let shown = 0;
let listed = null;

// A column: its name, title, the value to sort by, its cell, and a class.
const column = (name, title, value, cell = value, kind = "") =>
  ({ name, title, value, cell, kind });
const measure = (name, title, run = last()) => {
  const of = (video) => scores(video, run)?.[name];
  return column(run === last() ? name : `${name}-${letterOf(run)}`,
    runs.length > 1 ? `${title} ${letterOf(run)}` : title,
    (video) => of(video) && Number(of(video)),
    (video) => of(video) ?? NOTHING, run === last() ? "" : "aside");
};
const weightOf = (elements) => elements.reduce((sum, one) => sum + one.weight, 0);
const statusOf = (video) =>
  (STATUS[mine(video).status] ? badge(STATUS[mine(video).status], "badge alarm") : null);
const nameLink = (video, element = "") =>
  make("a", { class: "name", href: address({ video: video.index, element }) }, bdi(video.index));

function videoColumns() {
  return [
    column("index", "Video", (video) => video.place, (video) =>
      [nameLink(video), statusOf(video), text("p", mine(video).caption?.slice(0, 160), "snippet")],
    "first"),
    ...runs.map((run) => measure("f1", "F1", run)),
    ...(runs.length > 1
      ? [column("gap", "Δ F1", (video) => gap(video) && Number(gap(video)),
        (video) => gap(video)?.replace("-", "−") ?? NOTHING)]
      : [{ ...measure("p", "P"), kind: "aside" }, { ...measure("r", "R"), kind: "aside" }]),
    column("missed", "Weight", (video) => scores(video) && scores(video).total - scores(video).e,
      (video) => bar(scores(video)), "weight"),
    column("events", "Events", (video) => video.events.length, undefined, "aside"),
    column("elements", "Elements", (video) => video.elements.length, undefined, "aside"),
    ...(narrowed() ? [column("found", "Found", (video) => weightOf(video.hits), (video) =>
      meta(`${thousands(video.hits.length)}, weight ${weightOf(video.hits)}`))] : []),
  ];
}

function elementColumns() {
  return [
    column("video", "Video", (one) => one.video.place,
      (one) => nameLink(one.video, one.id), "video"),
    column("content", "Element", (one) => one.content, (one) =>
      [text("span", one.content), meta(` ${one.id}`)], "first words"),
    column("type", "Type", (one) => data.types.indexOf(one.type), (one) => one.type, "words"),
    column("weight", "Weight", (one) => one.weight),
    ...runs.map((run) => column(`verdict-${letterOf(run)}`, several ? letterOf(run) : "Verdict",
      (one) => verdictOf(one, run) ?? null, (one) => verdictOr(one, run), "verdicts")),
  ];
}

function verdictOr(element, run, lead = "") {
  const verdict = verdictOf(element, run);
  return verdict ? chip(verdict, lead)
    : make("span", { class: "soft" }, lead + STATUS[element.video.runs[run].status]);
}

function bar(one) {
  if (!one?.total) return NOTHING;
  const kinds = ["e", "c", "l"];
  const parts = kinds.map((kind) => make("i", { class: `part ${kind}` }));
  kinds.forEach((kind, n) => { parts[n].style.flexGrow = one[kind]; });
  return [make("span", { class: "weights", "aria-hidden": "true" }, parts),
    make("span", { class: "parts" }, kinds.map((kind) => `${sign(kind)}\u00a0${one[kind]} `))];
}

function chosen() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (row) => words.every((word) => haystack(row).includes(word));
  const kept = videos.filter((video) => (!state.kind || video.kinds.includes(state.kind))
    && (!state.domain || video.domain === Number(state.domain))
    && (!state.only || ONLY[state.only](mine(video))));
  for (const video of kept) video.hits = video.elements.filter(sought);
  return state.view ? kept.flatMap((video) => video.hits).filter(has)
    : kept.filter((video) => video.hits.length && has(video));
}

const sorting = () => state.sort || (state.view ? "-weight" : narrowed() ? "-found" : "f1");

function sorted(rows, columns) {
  const named = (one) => one.name === sorting().replace(/^-/, "");
  // Anyone may have written the address, and runs that are not shown have no column.
  if (!columns.some(named)) state.sort = "";
  const one = columns.find(named);
  const way = sorting().startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => [one.value(row) ?? null, row]);
  // Rows without a value come last in either direction; the sort is stable.
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return a < b ? -way : a > b ? way : 0;
  });
  return keyed.map(([, row]) => row);
}

function heading({ name, title, kind }) {
  const way = { [name]: "ascending", [`-${name}`]: "descending" }[sorting()] ?? "none";
  const arrow = { ascending: " ↑", descending: " ↓", none: "" }[way];
  return make("th", { scope: "col", class: kind, "aria-sort": way },
    make("button", { type: "button", "data-sort": name }, title + arrow));
}

const rowOf = (columns) => (row) => make("tr", { "data-place": (row.video ?? row).place },
  columns.map(({ kind, cell }) => make("td", { class: kind }, [cell(row)].flat()
    .map((part) => (typeof part === "number" ? thousands(part) : part)))));

function showMore() {
  const next = found.slice(shown, shown + PAGE);
  at("body").append(...next.map(rowOf(state.view ? elementColumns() : videoColumns())));
  shown += next.length;
  at("more").hidden = shown >= found.length;
  at("more").textContent = `Show ${Math.min(PAGE, found.length - shown)} more`;
}

function showList() {
  const here = address({ video: "", element: "" });
  if (here === listed) return;
  listed = here;
  runs = several ? boxes.flatMap((box, run) => (box.checked ? [run] : [])) : [0];
  const columns = state.view ? elementColumns() : videoColumns();
  found = sorted(chosen(), columns);
  at("columns").replaceChildren(...columns.map(heading));
  at("body").replaceChildren();
  shown = 0;
  showMore();
  const all = state.view ? videos.flatMap((video) => video.elements).length : videos.length;
  const unscored = videos.filter((video) => !mine(video).verdicts).length;
  const matches = counted(found.length, state.view ? "element" : "video");
  at("count").textContent = `${matches} of ${thousands(all)}`
    + (unscored ? `; ${counted(unscored, "video")} not scored, without verdicts` : "")
    + (several ? `. Filters read the verdicts of ${letterOf(last())}` : "")
    + (runs.length > 1 ? `, compared with ${letterOf(runs[0])}` : "");
  at("none").hidden = found.length > 0;
  at("rows").hidden = !found.length;
  for (const button of document.querySelectorAll(".views button"))
    button.setAttribute("aria-pressed", button.dataset.view === state.view);
}

// ---- the card --------------------------------------------------------------------------------

function arithmetic(video, run) {
  const { status, reason, sums, notes } = video.runs[run];
  const box = make("div", { class: "result" },
    several ? make("h3", {}, letter(run), " ", bdi(data.runs[run].name)) : null);
  if (status === "scored") {
    const [all] = sums;
    const mentioned = all.e + all.c;
    const p = `P = entailed / (entailed + contradicted) = ${all.e} / ${mentioned} = ${all.p}`;
    const body = GROUPS.map((group, n) => [group, sums[n]]).filter(([, one]) => one?.total)
      .map(([group, one]) => make("tr", {}, make("th", { scope: "row" }, group),
        ["e", "c", "l", "total"].map((name) => make("td", {}, thousands(one[name]))),
        ["p", "r", "f1"].map((name) => make("td", {}, one[name]))));
    const head = ["Type", ...["e", "c", "l"].map(sign), "all", "P", "R", "F1"];
    box.append(
      make("div", {},
        make("p", { class: "big" }, `F1 ${all.f1}`),
        make("p", {}, p + (mentioned ? "" : " (nothing mentioned)")),
        make("p", {}, `R = entailed / all = ${all.e} / ${all.total} = ${all.r}`),
        make("p", {}, `F1 = 2 × ${all.e} / (${mentioned} + ${all.total}) = ${all.f1}`)),
      make("details", { open: !several }, make("summary", {}, "Weights by type"),
        make("div", { class: "scroll" }, make("table", {},
          make("thead", {}, make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, body)))));
  } else {
    const why = { unscored: `Unscored: ${reason}`, unjudged: "This caption has no verdict yet." };
    if (why[status]) box.append(text("p", why[status], "why"));
    box.append(soft("Not scored: not in any mean."));
  }
  if (notes.length)
    box.append(make("div", { class: "notes" }, make("p", {}, "Notes:"),
      make("ul", {}, notes.map((note) => text("li", note)))));
  return box;
}

// The places of the candidate events in the caption, word by word; null if they are not there in
// order.
function located(caption, events) {
  const words = [...caption.matchAll(/\S+/g)];
  const places = [];
  let from = 0;
  for (const event of events) {
    const wanted = event.split(/\s+/).filter(Boolean);
    const matches = (_, start) => start >= from && start + wanted.length <= words.length
      && wanted.every((word, k) => words[start + k][0] === word);
    const start = words.findIndex(matches);
    if (start < 0 || !wanted.length) return null;
    from = start + wanted.length;
    places.push([words[start].index, words[from - 1].index + words[from - 1][0].length]);
  }
  return places;
}

// The seconds that a text begins with, as in "[0:05 – 0:09] A dog" or "01:02:03.5: a dog".
function clock(text) {
  const given = text.match(/^\W*(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)\b/);
  const [, hours = 0, minutes, seconds] = given ?? [];
  return seconds === undefined ? undefined : 3600 * hours + 60 * minutes + Number(seconds);
}

// A button that goes to an event in the video: at a known time, or by its share of the events.
function seekButton(video, name, share, seconds, from) {
  if (!video.url) return null;
  const label = seconds === undefined ? "estimated" : `${seconds.toFixed(1)} s`;
  return make("button", {
    type: "button", class: "seek", "aria-label": `Show ${name} in the video`,
    "data-seconds": seconds, "data-from": from, "data-share": share,
  }, `▶ ${label}`);
}

function pieceOf(video, run, event, number) {
  const { matches, candidate_events: events } = video.runs[run];
  const match = matches[number];
  const own = clock(event);
  const from = own === undefined ? `event ${match} of the annotation` : "the caption";
  const seconds = own ?? video.events[match - 1]?.[2];
  const to = match ? `→ event ${match}` : "matches no event";
  return make("div", { class: match ? "piece" : "piece loose", "data-match": match },
    make("span", { class: "tag" }, `${number + 1} ${to}`,
      seekButton(video, `caption event ${number + 1}`, number / events.length, seconds, from)),
    text("span", event));
}

function captionOf(video, run) {
  const { caption, candidate_events: events, status, votes } = video.runs[run];
  const label = `Caption${several ? ` of ${letterOf(run)}` : ""}`;
  const box = make("section", { class: "caption", "aria-label": label },
    make("h3", {}, "Caption", several ? [" ", letter(run)] : null));
  const between = (words) => words.trim() && box.append(make("div", { class: "between" },
    make("span", { class: "tag" }, "in no candidate event"), text("span", words.trim())));
  const whole = () => text("p", caption, "text between");
  const piece = (event, number) => box.append(pieceOf(video, run, event, number));
  if (votes.length) {
    const first = `Events and matches are those of the first of ${votes.length} repeats`;
    box.append(soft(`${first}; verdicts are the majority's.`));
  }
  if (caption === undefined) {
    const missing = "The caption is not in the files of this run.";
    box.append(soft(status === "scored" ? missing : "There is no caption of this video."));
    events.forEach(piece);
  } else if (!caption.trim()) {
    box.append(soft("The caption is empty."));
  } else if (status !== "scored") {
    box.append(whole());
  } else if (located(caption, events)) {
    let end = 0;
    located(caption, events).forEach(([start, stop], number) => {
      between(caption.slice(end, start));
      piece(caption.slice(start, stop), number);
      end = stop;
    });
    between(caption.slice(end));
  } else {
    events.forEach(piece);
    box.append(make("details", {}, make("summary", {}, "The caption as it was written"), whole()));
  }
  return box;
}

function elementOf(element) {
  const { id, type, weight, content, video, place } = element;
  const lead = (run, mark) => (several ? letterOf(run) + mark : "");
  const about = make("span", {}, text("span", content, weight === 3 ? "text w3" : "text"),
    meta(`${id} · ${type} · weight ${weight}`));
  for (const run of runs) {
    const votes = votesOf(element, run);
    const apart = new Set(votes).size > 1 ? " (not unanimous)" : "";
    if (votes.length)
      about.append(meta(`${lead(run, ": ")}votes ${votes.map(sign).join(" ")}${apart}`));
    for (const [, reason] of video.runs[run].why.filter(([k]) => k === place))
      about.append(make("span", { class: "meta why" }, `${lead(run, ": ")}reason: `, bdi(reason)));
    for (const [, rater, label, differs] of labelsOf(element, run)) {
      const by = data.raters[rater] ? [" (", bdi(data.raters[rater]), ")"] : null;
      about.append(make("span", { class: differs ? "human unlike" : "human" },
        `${lead(run, ": ")}human: ${signAndWord(label)}`, by, differs ? " ≠ judge" : null));
    }
  }
  return make("li", { class: AMONG.differ(element) ? "differ" : null, "data-element": id },
    make("span", { class: "by" }, runs.map((run) => verdictOr(element, run, lead(run, " ")))),
    about);
}

function eventOf(video, [sentence, , seconds], place) {
  const number = place + 1;
  const matched = runs.filter((run) => video.runs[run].verdicts).map((run) => {
    const from = video.runs[run].matches.flatMap((match, n) => (match === number ? [n + 1] : []));
    return (several ? `${letterOf(run)} ` : "") + (from.join(", ") || "none");
  });
  const silent = runs.every((run) => !video.runs[run].matches.includes(number));
  const by = matched.length ? `, matched by: ${matched.join("; ")}` : "";
  const share = place / video.events.length;
  return make("div", { class: silent && by ? "event silent" : "event", "data-event": number },
    make("span", { class: "tag" }, `Event ${number}${by}`,
      seekButton(video, `event ${number}`, share, seconds, "the annotation")),
    text("p", sentence),
    make("ul", { class: "elements" },
      video.elements.filter((one) => one.event === number).map(elementOf)));
}

// ---- the video and its frames ----------------------------------------------------------------

const picture = (webp, alt) => make("img", { src: `data:image/webp;base64,${webp}`, alt });
let opened = null;
let frame = 0;

function watch(video) {
  const box = make("div", { class: "watch" });
  if (video.url) {
    const player = make("video", { controls: true, preload: "metadata", src: video.url });
    const said = make("p", { class: "soft", id: "said", role: "status" },
      "Click an event, or its ▶, to go to its time in the video.");
    player.addEventListener("error", () => {
      said.textContent = "The video is not beside this page, or this browser cannot play it.";
    });
    box.append(make("div", { class: "player" }, player, said));
    // A video that is in use follows the reader down the page.
    new IntersectionObserver(([seen]) => box.firstChild.classList.toggle(
      "floating", !seen.isIntersecting && player.currentTime > 0)).observe(box);
  }
  if (Array.isArray(video.frames))
    box.append(make("div", { class: "strip" }, video.frames.map(([seconds, webp], n) =>
      make("button", { type: "button", "data-frame": n, "aria-label": `Frame at ${seconds} s` },
        picture(webp, ""), `${seconds} s`))));
  else if (video.frames) box.append(soft("No frames: ", bdi(video.frames)));
  return box;
}

function seek(box) {
  const player = at("card").querySelector("video");
  if (!player?.duration) return; // it is still loading, or a line says why it cannot be played
  const { seconds, share, from } = box.querySelector(".seek").dataset;
  player.currentTime = seconds ?? share * player.duration;
  const time = `${player.currentTime.toFixed(1)} s`;
  at("said").textContent = seconds === undefined
    ? `About ${time}: estimated from the order of events.` : `${time}: the time in ${from}.`;
}

function enlarge(place) {
  const { frames } = opened;
  frame = Math.max(0, Math.min(frames.length - 1, place));
  const [seconds, webp] = frames[frame];
  at("frame").replaceChildren(picture(webp, `Frame at ${seconds} s`));
  at("frame-name").textContent = `${seconds} s, frame ${frame + 1} of ${frames.length}`;
  if (!at("large").open) at("large").showModal();
}

// ---- going from card to card -----------------------------------------------------------------

const titled = document.title;
let scrolled = 0;

// The videos before and after the open one in the list, and its place there.
function neighbours() {
  const list = [...new Set(found.map((row) => row.video ?? row))];
  const here = list.indexOf(opened);
  return [list[here - 1], list[here + 1], here, list.length];
}

function showCard() {
  const was = opened;
  if (!was) scrolled = scrollY;
  opened = byIndex.get(state.video) ?? null;
  document.title = opened ? `${visible(opened.index)} – ${titled}` : titled;
  document.body.classList.toggle("reading", Boolean(opened));
  at("card").hidden = at("card-nav").hidden = !opened;
  at("card").replaceChildren();
  if (opened) fillCard(opened);
  if (opened && opened !== was) startCard();
  if (was && !opened) {
    scrollTo(0, scrolled);
    const row = at("body").querySelector(`[data-place="${was.place}"]`);
    row?.querySelector("a").focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  }
  const unknown = visible(state.video.slice(0, 100));
  if (unknown && !opened) at("count").textContent = `There is no video ${unknown} in this report.`;
}

function fillCard(video) {
  const [before, after, here, length] = neighbours();
  at("previous").disabled = !before;
  at("next").disabled = !after;
  at("where-in-list").textContent = here < 0 ? "not in the list" : `${here + 1} of ${length}`;
  const facts = [
    ...video.kinds, data.domains[video.domain], counted(video.events.length, "event"),
    counted(video.elements.length, "element"), video.file && `file ${video.file}`,
  ].filter(Boolean).join(" · ");
  const sides = [...new Set([runs[0], last()])];
  const others = runs.slice(1, -1);
  const [first, second] = sides.map((run) => captionOf(video, run));
  const matching = make("div", { class: second ? "matching both" : "matching" }, first,
    make("section", { class: "reference", "aria-label": "Reference events" },
      make("h3", {}, "Reference events"),
      video.events.map((event, place) => eventOf(video, event, place))), second);
  at("card").append(
    make("h1", { id: "card-title", tabindex: "-1" }, bdi(video.index)),
    soft(facts),
    watch(video),
    make("div", { class: "results" }, runs.map((run) => arithmetic(video, run))), matching);
  if (others.length)
    at("card").append(make("details", {}, make("summary", {}, "Captions of the other runs"),
      make("div", { class: "results" }, others.map((run) => captionOf(video, run)))));
  connect();
}

// Begin at the top of a card, or at the element that the address names.
function startCard() {
  at("card-title").focus();
  scrollTo(0, 0);
  const elements = [...at("card").querySelectorAll("[data-element]")];
  const element = elements.find((one) => one.dataset.element === state.element);
  element?.classList.add("lit");
  element?.scrollIntoView({ block: "center" });
}

// Lines from each part of a caption to the event that it matches; both also say so in text.
function connect() {
  const matching = document.querySelector(".matching");
  if (!matching) return;
  matching.querySelector(".lines")?.remove();
  const zero = matching.getBoundingClientRect();
  const svg = make("svg", { class: "lines", "aria-hidden": "true" });
  for (const piece of matching.querySelectorAll("[data-match]")) {
    const event = matching.querySelector(`[data-event="${piece.dataset.match}"]`);
    const [a, b] = [piece.getBoundingClientRect(), event.getBoundingClientRect()];
    const [x, to] = (a.left < b.left ? [a.right, b.left] : [a.left, b.right])
      .map((edge) => edge - zero.left);
    const [y, high] = [a.top + a.height / 2 - zero.top, b.top + 18 - zero.top];
    const middle = (x + to) / 2;
    const path = make("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${high} ${to} ${high}` });
    const light = (on) => [piece, event, path].forEach((one) => one.classList.toggle("lit", on));
    piece.onpointerenter = () => light(true);
    piece.onpointerleave = () => light(false);
    svg.append(path);
  }
  matching.append(svg);
}

// ---- actions ---------------------------------------------------------------------------------

function step(by) {
  const next = neighbours()[by < 0 ? 0 : 1];
  if (next) go({ video: next.index, element: "" }, Boolean(opened));
}

const leave = () => go({ video: "", element: "" });

async function copy(content, button) {
  const label = button.textContent;
  const copied = navigator.clipboard.writeText(content);
  button.textContent = await copied.then(() => "Copied", () => "Not copied");
  setTimeout(() => { button.textContent = label; }, 1500);
}

function search() {
  if (opened) leave();
  at("list").scrollIntoView();
  at("q").select();
}

function clear() {
  for (const control of controls) control.value = "";
  go({ ...readForm(), sort: "" });
  at("q").focus();
}

function typeKey(event) {
  const by = { j: 1, k: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const arrow = event.key.startsWith("Arrow");
  if (at("large").open) return arrow && by ? () => enlarge(frame + by) : null;
  if (at("keys").open || event.target.matches("input[type=search], select")) return null;
  if (event.key === "/") return search;
  if (event.key === "?") return () => at("keys").showModal();
  if (event.key === "Escape") return opened ? leave : null;
  if (!by || event.target.closest("video")) return null;
  return opened || !arrow ? () => step(by) : null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const action = typeKey(event);
  if (!action) return;
  event.preventDefault();
  action();
});

// What a click does, by the attribute of what is clicked.
const CLICKS = {
  sort: ({ sort }) => {
    go({ sort: sorting() === sort ? `-${sort}` : sort });
    at("columns").querySelector(`[data-sort="${sort}"]`).focus();
  },
  view: ({ view }) => go({ view, video: "", element: "" }),
  to: ({ to }) => { at(to).scrollIntoView(); at(to).focus({ preventScroll: true }); },
  leave,
  step: ({ step: by }) => step(Number(by)),
  clear,
  help: () => at("keys").showModal(),
  frame: ({ frame: place }) => enlarge(Number(place)),
  by: ({ by }) => enlarge(frame + Number(by)),
  copy: (dataset, button) => copy(at(dataset.copy).textContent, button),
  link: (_, button) => copy(location.href, button),
  close: (_, button) => button.closest("dialog").close(),
};

document.addEventListener("click", (event) => {
  for (const [name, action] of Object.entries(CLICKS)) {
    const target = event.target.closest(`[data-${name}]`);
    if (!target) continue;
    if (target.matches("a")) event.preventDefault();
    action(target.dataset, target);
  }
  // A row or an event can be clicked anywhere, unless text in it is being selected.
  const box = event.target.closest("#body tr, .piece, .event");
  if (box && (event.target.closest(".seek") || !String(getSelection()))) {
    if (!box.matches("tr")) seek(box);
    else if (!event.target.closest("a")) box.querySelector("a").click();
  }
});
for (const control of [...controls, ...boxes])
  control.addEventListener("input", () => go(readForm(), control === at("q")));
for (const link of document.querySelectorAll("a[data-video]"))
  link.href = `#${new URLSearchParams({ video: videos[link.dataset.video].index })}`;
form.addEventListener("submit", (event) => event.preventDefault());
at("more").addEventListener("click", showMore);
new IntersectionObserver(([seen]) => { if (seen.isIntersecting) showMore(); },
  { rootMargin: "600px" }).observe(at("more"));
addEventListener("resize", () => requestAnimationFrame(connect));
// A picture or a video that loads late moves the ends of the lines.
for (const loads of ["load", "loadedmetadata"]) addEventListener(loads, connect, true);

const follow = () => { readAddress(); go({}, true); };
addEventListener("hashchange", follow);
follow();

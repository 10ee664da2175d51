const ELEMENT = {
  content: isText, type: (one) => data.types.includes(one), weight: (one) => [1, 2, 3].includes(one),
  source: isText, confirmed_by: [isText],
  other: (one) => one === null || fits(one, ELEMENT),
};
const LIKE = {
  visual_characteristic: [isText], domain: (one) => one === null || isText(one), comment: isText,
  events: [{ event: isText, start: (one) => one === null || one >= 0, other: (one) => one === null || isText(one), visual_elements: [ELEMENT] }],
};
const both = data.adjudicates;

// An adjudicator sees what both annotators agree on only if asked to.
const hidden = (element) => both.length > 0 && !state.agreed && !element.other && element.confirmed_by.some((name) => name !== data.me);

// The event and the element of each row; -1 for the event's own sentence.
const places = (draft) => draft.events.flatMap((event, e) => [[e, -1], ...event.visual_elements.flatMap((one, k) => (hidden(one) ? [] : [[e, k]]))]);
const rowOf = (draft, e, k) => Math.max(0, places(draft).findIndex(([a, b]) => a === e && b === k));

function gaps(draft) {
  const elements = draft.events.flatMap((event) => event.visual_elements);
  const open = elements.filter((one) => !one.confirmed_by.length).length;
  const undecided = draft.events.filter((event) => event.other !== null).length;
  const dynamic = draft.visual_characteristic.filter((one) => one.endsWith("-Dynamic")).length;
  return [
    [!draft.events.length, "events"],
    [draft.events.some((event) => !event.event.trim()), "an event without a sentence"],
    [draft.events.some((event) => !event.visual_elements.length), "an event without elements"],
    [undecided, `${undecided} undecided sentence${undecided === 1 ? "" : "s"}`],
    [open, `${open} unconfirmed element${open === 1 ? "" : "s"}`],
    [dynamic !== 1, "Low- or High-Dynamic"],
    [!draft.domain, "domain"],
  ].filter(([is]) => is).map(([, text]) => text);
}

function firstOpen(number) {
  const draft = state.values[number];
  if (!gaps(draft).length) return -1;
  const isOpen = ([e, k]) => (k < 0 ? draft.events[e].other !== null || !draft.events[e].event.trim() : !draft.events[e].visual_elements[k].confirmed_by.length);
  return Math.max(0, places(draft).findIndex(isOpen));
}

function drawn(draft) {
  let row = 0;
  return draft.events.map((event, e) => {
    const theirs = event.other === null ? [] : [make("p", { class: "other", dir: "auto", text: `${both[1]}: ${event.other}` })];
    const head = box(row++, "div", "sentence" + (event.other === null ? "" : " open"), event.event, ...theirs,
      tools([...(event.other === null ? [] : ["c", "x"]), "Enter", "i", "e", "m", "f", "g", "Alt+ArrowUp", "Alt+ArrowDown", "Delete"]));
    const shown = event.visual_elements.filter((one) => !hidden(one));
    const list = make("ol", {}, ...shown.map((one) => elementBox(row++, one)));
    const agreed = event.visual_elements.length - shown.length;
    const start = event.start === null ? "" : ` · starts at ${event.start.toFixed(3)} s`;
    return make("div", { class: "event" }, make("h3", { text: `Event ${e + 1}${start}` }), head, list,
      ...(agreed ? [make("p", { class: "kind", text: `${agreed} agreed element${agreed === 1 ? "" : "s"} not shown` })] : []));
  });
}

function elementBox(row, one) {
  const marks = [one.type, `weight ${one.weight}`, `from ${one.source}`, one.confirmed_by.length ? `✓ ${one.confirmed_by.join(", ")}` : "not confirmed"];
  if (one.by && !one.confirmed_by.length) marks.push(one.other ? `${one.by}'s version` : `only ${one.by} has it`);
  const theirs = [];
  if (one.other) {
    const same = ["content", "type", "weight"].every((name) => one[name] === one.other[name]);
    const text = same ? "the same, in another event" : `${one.other.content} · ${one.other.type} · weight ${one.other.weight}`;
    theirs.push(make("p", { class: "other", dir: "auto", text: `${both[1]}: ${text}` }));
  }
  const pressed = [String(one.weight), String(data.types.indexOf(one.type) + 4)];
  return box(row, "li", one.confirmed_by.length ? "confirmed" : "open", one.content, make("p", { class: "kind", text: marks.join(" · ") }), ...theirs,
    tools(["1", "2", "3", "", "4", "5", "6", "7", "", "c", ...(one.other ? ["x"] : []), "Enter", "i", "s", "m", "Alt+ArrowUp", "Alt+ArrowDown", "Delete"], pressed));
}

const placed = (draft, row) => { const [e, k] = places(draft)[row]; return [draft.events[e], draft.events[e].visual_elements[k]]; };
const textOf = (draft, row) => { const [event, one] = placed(draft, row); return one ? one.content : event.event; };
const mayBeEmpty = (draft, row) => places(draft)[row][1] < 0;

function withText(draft, row, text) {
  const next = structuredClone(draft);
  const [event, one] = placed(next, row);
  if (one) Object.assign(touched(one), { content: text, source: data.me });
  else event.event = text;
  return next;
}

// What others confirmed is no longer what stands there.
function touched(one) {
  one.confirmed_by = one.confirmed_by.filter((name) => name === data.me);
  return one;
}

// Calls work with a copy of the events and the current place; it returns the place to go to.
function alter(work, then = change) {
  const next = structuredClone(state.values[state.item]);
  const here = places(next)[state.row];
  if (!here) { say("There is no event yet: press E for one."); return; }
  const to = work(next.events, ...here);
  if (to) then(next, rowOf(next, ...to));
}

function confirmOne(one) {
  one.confirmed_by = both.length ? [data.me] : [...new Set([...one.confirmed_by, data.me])];
  one.other = null;
}

function confirm() {
  alter((events, e, k) => {
    if (k < 0) events[e].other = null;
    else confirmOne(events[e].visual_elements[k]);
    return [e, k];
  }, (next, row) => {
    if (JSON.stringify(next) !== JSON.stringify(state.values[state.item])) change(next, row);
    if (state.row < boxes().length - 1) moveRow(1);
    doneOr("");
  });
}

function confirmAll() {
  const next = structuredClone(state.values[state.item]);
  for (const event of next.events) { event.other = null; for (const one of event.visual_elements) if (!hidden(one)) confirmOne(one); }
  change(next);
  doneOr("All elements are confirmed.");
}

function takeOther() {
  alter((events, e, k) => {
    const one = k < 0 ? events[e] : events[e].visual_elements[k];
    if (!one.other) { say("There is no other version."); return null; }
    if (k < 0) events[e].event = one.other;
    else Object.assign(one, { ...one.other, by: both[1] });
    if (k >= 0) confirmOne(one);
    one.other = null;
    return [e, k];
  });
  doneOr("");
}

function addElement() {
  alter((events, e, k) => {
    const like = events[e].visual_elements[Math.max(k, 0)] ?? { type: "action", weight: 3 };
    events[e].visual_elements.splice(k + 1, 0, { content: "", type: like.type, weight: like.weight, source: data.me, confirmed_by: [], other: null });
    return [e, k + 1];
  }, edit);
}

const emptyEvent = (elements) => ({ event: "", start: null, other: null, visual_elements: elements });

function addEvent() {
  const next = structuredClone(state.values[state.item]);
  const e = (places(next)[state.row]?.[0] ?? -1) + 1;
  next.events.splice(e, 0, emptyEvent([]));
  edit(next, rowOf(next, e, -1));
}

function split() {
  alter((events, e, k) => {
    if (k < 1) { say("An event can be split at its second element or a later one."); return null; }
    events.splice(e + 1, 0, emptyEvent(events[e].visual_elements.splice(k)));
    return [e + 1, -1];
  }, edit);
}

function merge() {
  alter((events, e, k) => {
    if (e + k < 0 || k === 0) { say("There is nothing before it to merge it with."); return null; }
    const list = k < 0 ? events : events[e].visual_elements;
    const [before, one] = list.splice((k < 0 ? e : k) - 1, 2);
    const joined = (name) => [before[name], one[name]].join(" ").trim();
    if (k < 0) Object.assign(before, { event: joined("event"), visual_elements: [...before.visual_elements, ...one.visual_elements] });
    else Object.assign(touched(before), { content: joined("content"), source: data.me });
    list.splice((k < 0 ? e : k) - 1, 0, before);
    return k < 0 ? [e - 1, -1] : [e, k - 1];
  });
}

function move(by) {
  alter((events, e, k) => {
    const list = k < 0 ? events : events[e].visual_elements;
    const from = k < 0 ? e : k;
    const to = from + by;
    const [one] = list.splice(from, 1);
    if (to >= 0 && to <= list.length) { list.splice(to, 0, one); return k < 0 ? [to, -1] : [e, to]; }
    const other = k < 0 ? null : events[e + by]?.visual_elements;
    if (!other) { say("It cannot be moved further."); return null; }
    const end = by < 0 ? other.length : 0;
    other.splice(end, 0, one);
    return [e + by, end];
  });
}

function remove() {
  const row = state.row;
  alter((events, e, k) => {
    (k < 0 ? events : events[e].visual_elements).splice(k < 0 ? e : k, 1);
    return [e, k];
  }, (next) => change(next, Math.min(row, Math.max(0, places(next).length - 1))));
}

function set(name, wanted) {
  alter((events, e, k) => {
    if (k < 0) { say("Choose an element."); return null; }
    const one = events[e].visual_elements[k];
    if (one[name] === wanted) return null;
    touched(one)[name] = wanted;
    return [e, k];
  });
}

const ACTS = {
  c: ["Confirm", confirm], a: ["Confirm all", confirmAll], x: ["Take the other's", takeOther], Enter: ["Edit", () => { if (boxes().length) edit(value(), state.row); }],
  i: ["New element", addElement], e: ["New event", addEvent], s: ["Begin an event here", split], m: ["Merge with the one before", merge],
  "Alt+ArrowUp": ["Up", () => move(-1)], "Alt+ArrowDown": ["Down", () => move(1)], Delete: ["Delete", remove],
  o: ["Comment", () => at("comment").focus()], d: ["Domain", () => at("domain").focus()], h: ["Characteristics", () => at("characteristics").querySelector("input").focus()],
  f: ["Starts at this frame", () => (frame === null ? say("No frame is shown.") : alter((events, e, k) => { events[e].start = Number(frame.toFixed(6)); return [e, k]; }))],
  // Rounded to a millionth, a start can be just before its frame.
  g: ["Go to its start", () => { const start = value().events[places(value())[state.row]?.[0]]?.start; if (film() && start !== null && start !== undefined) seek(film(), start + 0.0005); }],
};
for (const weight of [1, 2, 3]) ACTS[weight] = ["Weight " + weight, () => set("weight", weight)];
data.types.forEach((type, n) => { ACTS[n + 4] = [type, () => set("type", type)]; });

function paintForm(draft) {
  const put = (field, text) => { if (field.value !== text) field.value = text; };
  put(at("domain"), draft.domain ?? "");
  put(at("comment"), draft.comment);
  for (const one of at("characteristics").querySelectorAll("input")) one.checked = draft.visual_characteristic.includes(one.value);
  if (both.length) at("agreed").checked = state.agreed;
}

function exported() {
  const plain = ({ by, ...one }) => one;
  const drafts = state.values.map((draft) => ({
    ...draft, annotator: data.me, adjudicates: both,
    events: draft.events.map((event) => ({ ...event, visual_elements: event.visual_elements.map(plain) })),
  }));
  const open = state.values.filter((one) => gaps(one).length).length;
  return [JSON.stringify(drafts, null, 1) + "\n", open ? `${open} of ${drafts.length} videos are not done.` : "all videos are done."];
}

ready.then(() => {
  at("domains").append(...data.domains.map((name) => make("option", { value: name })));
  for (const name of data.characteristics)
    at("characteristics").append(make("label", {}, make("input", { type: "checkbox", value: name }), " " + name));
  paintForm(value());
  const fill = (field, part) => change({ ...state.values[state.item], ...part }, state.row, field);
  at("domain").addEventListener("input", (event) => fill("domain", { domain: event.target.value.trim() || null }));
  at("comment").addEventListener("input", (event) => fill("comment", { comment: event.target.value }));
  at("characteristics").addEventListener("change", (event) => {
    const chosen = [...event.currentTarget.querySelectorAll(":checked")].map((one) => one.value);
    fill(null, { visual_characteristic: chosen });
  });
  if (both.length) at("agreed").addEventListener("change", (event) => { state.agreed = event.target.checked; state.row = 0; save(); showItem(); });
});

const both = data.adjudicates;

// An adjudicator sees what both annotators agree on only if asked to.
const hidden = (element) => both.length > 0 && !state.agreed && !element.other && element.confirmed_by.some((name) => name !== data.me);

// The event and the element of each row; -1 for the event's own sentence.
const places = (draft) => draft.events.flatMap((event, e) => [[e, -1], ...event.visual_elements.flatMap((one, k) => (hidden(one) ? [] : [[e, k]]))]);
const rowOf = (draft, e, k) => Math.max(0, places(draft).findIndex(([a, b]) => a === e && b === k));

function gaps(draft) {
  const elements = draft.events.flatMap((event) => event.visual_elements);
  const open = elements.filter((one) => !one.confirmed_by.length).length;
  const dynamic = draft.visual_characteristic.filter((one) => one.endsWith("-Dynamic")).length;
  return [
    [!draft.events.length, "events"],
    [draft.events.some((event) => !event.event.trim()), "an event without a sentence"],
    [draft.events.some((event) => !event.visual_elements.length), "an event without elements"],
    ...draft.events.map((event, e) => [event.other !== null, `the text of event ${e + 1} is undecided`]),
    [open, `${open} unconfirmed element${open === 1 ? "" : "s"}`],
    [dynamic !== 1, "Low- or High-Dynamic"],
    [!draft.domain, "domain"],
    [draft.domain && dynamic === 1 && !draft.seen && !both.length, "confirm domain and characteristics (A)"],
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
    const list = make("ol", {}, ...shown.map((one) => elementBox(row++, one, event, draft.events)));
    const agreed = event.visual_elements.length - shown.length;
    const start = event.start === null ? "" : ` · starts at ${event.start.toFixed(3)} s`;
    return make("div", { class: "event" }, make("h3", { text: `Event ${e + 1}${start}` }), head, list,
      ...(agreed ? [make("p", { class: "kind", text: `${agreed} agreed element${agreed === 1 ? "" : "s"} not shown` })] : []));
  });
}

// Where the second annotator has an element that both have.
const theirEvent = (one, events) => events.find((event) => event.theirs === one.their_event);

function elementBox(row, one, event, events) {
  const marks = [one.type, `weight ${one.weight}`, `from ${one.source}`, one.confirmed_by.length ? `✓ ${one.confirmed_by.join(", ")}` : "not confirmed"];
  if (one.by && !one.confirmed_by.length) marks.push(one.other ? `${one.by}'s version` : `only ${one.by} has it`);
  const theirs = [];
  if (one.other) {
    const there = theirEvent(one, events);
    const parts = [
      [one.content !== one.other.content, `${both[1]}: ${one.other.content}`],
      ...["type", "weight"].map((name) => [one[name] !== one.other[name], `${name} ${one[name]} → ${both[1]}: ${one.other[name]}`]),
      [there !== event, `${both[1]}: in ${there ? "event " + (events.indexOf(there) + 1) : "an event that is deleted"}`],
    ];
    theirs.push(make("p", { class: "other", dir: "auto", text: parts.filter(([is]) => is).map(([, text]) => text).join(" · ") }));
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

// Calls work with a copy of what there is at the current row: `one` is an event or an element,
// number n of `list`. It returns the place to go to, or null after saying why nothing changes.
function alter(work, then = change) {
  const next = structuredClone(state.values[state.item]);
  const place = places(next)[state.row];
  if (!place) { say("There is no event yet: press E for one."); return; }
  const [e, k] = place;
  const [list, n] = k < 0 ? [next.events, e] : [next.events[e].visual_elements, k];
  const to = work({ events: next.events, e, k, list, n, one: list[n] });
  if (to) then(next, rowOf(next, ...to));
}

function confirmOne(one) {
  one.confirmed_by = both.length ? [data.me] : [...new Set([...one.confirmed_by, data.me])];
  one.other = null;
}

const inDispute = (one) => one.other !== null || (one.by && !one.confirmed_by.length);
const decide = (one) => (one.visual_elements ? (one.other = null) : confirmOne(one));

function confirm() {
  alter(({ e, k, one }) => { decide(one); return [e, k]; }, (next, row) => {
    if (JSON.stringify(next) !== JSON.stringify(state.values[state.item])) change(next, row);
    if (state.row < boxes().length - 1) moveRow(1);
    doneOr("");
  });
}

function confirmAll() {
  const next = structuredClone(state.values[state.item]);
  const rows = next.events.flatMap((event) => [event, ...event.visual_elements.filter((one) => !hidden(one))]);
  const left = rows.filter(inDispute).length;
  rows.filter((one) => !inDispute(one)).forEach(decide);
  change({ ...next, seen: true });
  doneOr(left ? `${left} difference${left === 1 ? " is" : "s are"} left to decide.` : "All elements are confirmed.");
}

function takeOther() {
  alter(({ events, e, k, list, n, one }) => {
    if (one.other === null) { say("There is no other version."); return null; }
    const there = k < 0 ? events[e] : theirEvent(one, events);
    if (!there) { say(`${both[1]}'s event is deleted: move the element with Alt ↑ or ↓, then press C.`); return null; }
    Object.assign(one, k < 0 ? { event: one.other } : one.other);
    decide(one);
    say("");
    if (there === events[e]) return [e, k];
    const to = events.indexOf(there) < e ? there.visual_elements.length : 0;
    there.visual_elements.splice(to, 0, ...list.splice(n, 1));
    return [events.indexOf(there), to];
  }, (next, row) => { change(next, row); doneOr(""); });
}

function addElement() {
  alter(({ events, e, k }) => {
    const elements = events[e].visual_elements;
    const { type, weight } = elements[Math.max(k, 0)] ?? { type: "action", weight: 3 };
    elements.splice(k + 1, 0, { content: "", type, weight, source: data.me, confirmed_by: [], other: null });
    return [e, k + 1];
  }, edit);
}

const newEvent = (elements) => ({ event: "", start: null, other: null, visual_elements: elements });

function addEvent() {
  const next = structuredClone(state.values[state.item]);
  const e = (places(next)[state.row]?.[0] ?? -1) + 1;
  next.events.splice(e, 0, newEvent([]));
  edit(next, rowOf(next, e, -1));
}

function split() {
  alter(({ events, e, k, list }) => {
    if (k < 1) { say("An event can be split at its second element or a later one."); return null; }
    events.splice(e + 1, 0, newEvent(list.splice(k)));
    return [e + 1, -1];
  }, edit);
}

function merge() {
  alter(({ e, k, list, n, one }) => {
    const before = list[n - 1];
    if (!before) { say("There is nothing before it to merge it with."); return null; }
    const joined = (name) => `${before[name]} ${one[name]}`.trim();
    if (k < 0) Object.assign(before, { event: joined("event"), visual_elements: [...before.visual_elements, ...one.visual_elements] });
    else Object.assign(touched(before), { content: joined("content"), source: data.me });
    list.splice(n, 1);
    return k < 0 ? [e - 1, -1] : [e, k - 1];
  });
}

// An element at the end of its event moves to the neighbouring event.
function move(by) {
  alter(({ events, e, k, list, n, one }) => {
    const inside = n + by >= 0 && n + by < list.length;
    const target = inside ? list : k < 0 ? null : events[e + by]?.visual_elements;
    if (!target) { say("It cannot be moved further."); return null; }
    list.splice(n, 1);
    const to = inside ? n + by : by < 0 ? target.length : 0;
    target.splice(to, 0, one);
    if (k < 0) return [to, -1];
    return inside ? [e, to] : [e + by, to];
  });
}

function remove() {
  const { row } = state;
  alter(({ list, n }) => list.splice(n, 1) && [0, -1], (next) => change(next, row));
}

function set(name, wanted) {
  alter(({ e, k, one }) => {
    if (k < 0) { say("Choose an element."); return null; }
    if (one[name] === wanted) return null;
    touched(one)[name] = wanted;
    return [e, k];
  });
}

function startHere() {
  if (frame === null) { say("No frame is shown."); return; }
  alter(({ events, e, k }) => { events[e].start = Number(frame.toFixed(6)); return [e, k]; });
}

const ACTS = {
  c: ["Confirm", confirm], a: ["Confirm all", confirmAll], x: ["Take the other's", takeOther], Enter: ["Edit", () => { if (boxes().length) edit(value(), state.row); }],
  i: ["New element", addElement], e: ["New event", addEvent], s: ["Begin an event here", split], m: ["Merge with the one before", merge],
  "Alt+ArrowUp": ["Up", () => move(-1)], "Alt+ArrowDown": ["Down", () => move(1)], Delete: ["Delete", remove],
  o: ["Comment", () => at("comment").focus()], d: ["Domain", () => at("domain").focus()], h: ["Characteristics", () => at("characteristics").querySelector("input").focus()],
  f: ["Starts at this frame", startHere],
  // Rounded to a millionth, a start can be just before its frame.
  g: ["Go to its start", () => { const start = value().events[places(value())[state.row]?.[0]]?.start; if (film() && start !== null && start !== undefined) seek(film(), start + 0.0005); }],
};
for (const weight of [1, 2, 3]) ACTS[weight] = ["Weight " + weight, () => set("weight", weight)];
data.types.forEach((type, n) => { ACTS[n + 4] = [type, () => set("type", type)]; });

function paintForm(draft) {
  at("begin").hidden = draft.events.length > 0;
  const put = (field, text) => { if (field.value !== text) field.value = text; };
  put(at("domain"), draft.domain ?? "");
  put(at("comment"), draft.comment);
  for (const one of at("characteristics").querySelectorAll("input")) one.checked = draft.visual_characteristic.includes(one.value);
  if (both.length) at("agreed").checked = state.agreed;
}

function exported() {
  const by = { annotator: data.me, adjudicates: both, exported: new Date().toISOString() };
  const drafts = state.values.map((draft, n) => ({ ...draft, ...by, reviewers: data.items[n].reviewers }));
  const text = JSON.stringify(drafts, null, 1) + "\n";
  const open = drafts.filter((one) => gaps(one).length).length;
  return [text, open ? `${open} of ${drafts.length} videos are not done.` : "all videos are done."];
}

ready.then(() => {
  at("domains").append(...data.domains.map((name) => make("option", { value: name })));
  for (const name of data.characteristics)
    at("characteristics").append(make("label", {}, make("input", { type: "checkbox", value: name }), " " + name));
  at("event").addEventListener("click", addEvent);
  at("element").addEventListener("click", addElement);
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

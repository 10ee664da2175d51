const WORDS = { entailment: ["Entails", "1"], lack: ["Lacks", "2"], contradiction: ["Contradicts", "3"] };
const KEYS = { 1: "entailment", e: "entailment", 2: "lack", l: "lack", 3: "contradiction", c: "contradiction" };
const items = data.items.map((item) => ({
  ...item,
  elements: item.events.flatMap((event) => event.elements.map((element) => item.id + " " + element.id)),
}));
const known = new Set(items.flatMap((item) => item.elements));
// The element whose label completed a caption by key: until the rater moves, further keys do not
// change it.
let settled = null;

const blank = () => ({ rater: "", labels: new Map(), undo: [], item: 0, row: 0, keys: true });
const packed = () => ({ ...state, labels: [...state.labels] });
const worked = () => state.labels.size > 0;
const leave = () => { settled = null; };
const refresh = () => paint();

const restored = (kept) => ({ ...blank(), ...kept, labels: new Map(kept.labels) });

function showItem() {
  const item = items[state.item];
  at("title").textContent = `Caption ${state.item + 1} of ${items.length}: video ${item.video}`;
  showVideo(item);
  at("caption").textContent = item.caption.trim() ? item.caption : "(This caption is empty.)";
  at("caption").scrollTop = 0;
  const events = [];
  let position = 0;
  item.events.forEach((event, number) => {
    const list = make("ol", {});
    for (const element of event.elements) {
      const here = position++;
      const id = "content-" + here;
      const group = make("div", { class: "choice", role: "group", "aria-labelledby": id });
      for (const label of data.labels) {
        const [word, key] = WORDS[label];
        const button = make("button", { type: "button", class: label, "data-label": label }, make("span", { text: word + " " }), make("kbd", { text: key, "aria-hidden": "true" }));
        button.addEventListener("click", () => { settled = null; state.row = here; give(label); });
        group.append(button);
      }
      const box = make("li", { class: "element", tabindex: "-1" },
        make("p", { class: "content", id, dir: "auto", text: element.content }),
        make("p", { class: "kind", text: `${element.id.slice(1)} · ${element.type}` }), group);
      box.addEventListener("focusin", () => { if (state.row !== here) { settled = null; state.row = here; paint(); save(); } });
      list.append(box);
    }
    events.push(make("div", { class: "event" }, make("h3", { text: `Event ${number + 1}` }), make("p", { dir: "auto", text: event.event }), list));
  });
  at("elements").replaceChildren(...events);
  paint();
}

function paint() {
  const item = items[state.item];
  boxes().forEach((box, number) => {
    for (const button of box.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(state.labels.get(item.elements[number]) === button.dataset.label));
  });
  paintProgress(state.labels.size, known.size, `${state.labels.size} of ${known.size} labels`);
  if (at("rater").value !== state.rater) at("rater").value = state.rater;
}

function change(key, label) {
  const before = state.labels.get(key) ?? null;
  if (before === label) return;
  state.undo.push([key, before]);
  if (state.undo.length > 500) state.undo.shift();
  put(key, label);
}

function put(key, label) {
  if (label === null) state.labels.delete(key);
  else state.labels.set(key, label);
}

const missing = (item) => item.elements.findIndex((key) => !state.labels.has(key));
const firstOpen = (number) => missing(items[number]);

function give(label) {
  const item = items[state.item];
  change(item.elements[state.row], label);
  save();
  paint();
  if (state.labels.size === known.size) say(state.rater.trim() ? "All labels are given. Export them and send the file back." : "All labels are given. Enter your name, then export them.");
  else if (missing(item) < 0) say("This caption is done. Press → for the next one.");
  else say(label === null ? "Label removed." : WORDS[label][0] + ".");
}

// Only keys move on; with the mouse, the rater chooses the next element.
function giveAndMove(label) {
  const item = items[state.item];
  const last = item.elements.length - 1;
  const here = item.elements[state.row];
  if (settled === here && state.labels.has(here)) {
    const go = state.labels.size === known.size ? "" : state.item === items.length - 1 ? "Press N for one without a label, " : "Press → for the next one, ";
    say(`That key changed nothing: ${go ? "this caption is done" : "all labels are given"}. ${go || "Press "}↑ or U to change a label.`);
    return;
  }
  const gap = missing(item) >= 0;
  give(label);
  const open = missing(item);
  if (open < 0 && (gap || state.row === last)) settled = here;
  else if (state.row < last) state.row += 1;
  else state.row = open;
  save();
  paint();
  focusRow();
}

function undo() {
  const last = state.undo.pop();
  if (!last) { say("There is nothing to undo."); return; }
  put(last[0], last[1]);
  const number = items.findIndex((item) => item.elements.includes(last[0]));
  goTo(number, items[number].elements.indexOf(last[0]));
  focusRow();
  say("Undone.");
}

const cell = (text) => (/[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// A spreadsheet would run such a name as a formula.
const escapeFormula = (text) => (/^'*\s*[=+\-@＝＋－＠|%]/.test(text) ? "'" + text : text);

function exported() {
  const rows = [["item_id", "element_id", "rater", "label"]];
  for (const item of items)
    for (const key of item.elements) {
      const [id, element] = key.split(" ");
      rows.push([id, element, escapeFormula(state.rater.trim()), state.labels.get(key) ?? ""]);
    }
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

function exportWork() {
  if (!state.rater.trim()) { say("Enter your name first."); at("rater").focus(); return; }
  const name = state.rater.trim().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "") || "rater";
  download(`ratings-${data.sheet}-${name}.csv`, exported(), "text/csv");
  const open = known.size - state.labels.size;
  say(open ? `Exported, ${open} labels are still missing.` : "Exported: all labels are there.");
}

function acts(event) {
  const found = {
    ArrowRight: () => moveItem(1), ArrowLeft: () => moveItem(-1),
    n: moveToOpen, u: undo, Delete: () => give(null), p: playOrPause,
  };
  for (const [key, label] of Object.entries(KEYS)) found[key] = () => giveAndMove(label);
  // The arrows scroll a long caption.
  if (event.target.id === "caption") return found;
  return { ...found, ArrowDown: () => moveRow(1), ArrowUp: () => moveRow(-1) };
}

ready.then(() => at("rater").addEventListener("input", (event) => { state.rater = event.target.value; save(); }));

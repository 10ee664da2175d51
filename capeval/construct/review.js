// What the pages of drafts and of questions share: one value for each item, replaced as a whole;
// rows of text that are edited in place; frames. A kind's script defines ACTS, what keys and buttons
// do; drawn(value), its boxes; textOf and withText(value, row, text); mayBeEmpty(value, row);
// gaps(value), what is left to do; paintForm(value); firstOpen and exported.

// An edit that is not finished: the value that it leads to, and its row.
let pending = null;
// The time of the frame that is shown, in seconds, and whether another is looked for.
let frame = null;
let stepping = false;

// Everything but the rows: its fields keep the focus.
const form = document.querySelector(".seen");

const value = () => pending?.value ?? state.values[state.item];
const blank = () => ({ values: data.items.map((item) => item.value), undo: [], item: 0, row: 0, keys: true, agreed: false });
const worked = () => state.undo.length > 0;
const leave = () => { if (pending) finish(true); };
const refresh = () => { if (!pending) showItem(); };

function packed() {
  const changed = data.items.map((item, n) => [item.id, state.values[n]]).filter(([, one], n) => one !== data.items[n].value);
  // All pages share the browser's storage: with a hundred kilobytes of steps, twenty pages fit.
  return { ...state, values: changed, undo: state.undo.slice(-20) };
}

// What was stored under the key of these very data has the form that `packed` gave it.
function restored(kept) {
  const changed = new Map(kept.values);
  return { ...blank(), ...kept, values: data.items.map((item) => changed.get(item.id) ?? item.value) };
}

// Changes of one field that follow each other are one step.
function change(next, row = state.row, field = null) {
  const last = state.undo.at(-1);
  if (!field || last?.field !== field || last.item !== state.item)
    state.undo.push({ item: state.item, row: state.row, value: state.values[state.item], field });
  state.values[state.item] = next;
  state.row = row;
  save();
  showItem();
  if (!form.contains(document.activeElement)) focusRow();
}

function undo() {
  leave();
  const last = state.undo.pop();
  if (!last) { say("There is nothing to undo."); return; }
  state.values[last.item] = last.value;
  goTo(last.item, last.row);
  focusRow();
  say("Undone.");
}

function edit(next, row) {
  pending = { value: next, row, back: state.row };
  state.row = row;
  showItem();
  const box = at("text");
  pending.was = box.value;
  box.focus();
  box.setSelectionRange(box.value.length, box.value.length);
  say("Enter saves the text, Escape cancels.");
}

function finish(commits) {
  const { value: next, row, back, was } = pending;
  const text = at("text").value;
  pending = null;
  const changed = text !== was || next !== state.values[state.item];
  if (commits && changed && (text.trim() || mayBeEmpty(next, row))) {
    state.row = back;
    change(text === was ? next : withText(next, row, text.trim()), row);
    say("");
  } else {
    if (next !== state.values[state.item]) state.row = back;
    showItem();
    focusRow();
    say(commits && changed ? "A text is needed: nothing was changed." : "");
  }
}

function box(row, tag, look, text, ...marks) {
  let content = make("p", { class: "content", dir: "auto", text });
  if (pending?.row === row) {
    content = make("textarea", { id: "text", rows: "2", dir: "auto", "aria-label": "Text" });
    content.value = text;
    content.addEventListener("keydown", (event) => {
      if (event.isComposing || !(event.key === "Escape" || (event.key === "Enter" && !event.shiftKey))) return;
      event.preventDefault();
      event.stopPropagation();
      finish(event.key === "Enter");
    });
    content.addEventListener("blur", leave);
    marks = marks.filter((mark) => mark.className !== "tools");
  }
  const node = make(tag, { class: "element " + look, tabindex: "-1" }, content, ...marks);
  node.addEventListener("focusin", () => { if (state.row !== row && !pending) { state.row = row; save(); paint(); } });
  node.addEventListener("dblclick", (event) => { if (event.target === content && !pending) edit(value(), row); });
  return node;
}

const capOf = (key) => (key.length === 1 ? key.toUpperCase() : key.replace("ArrowUp", "↑").replace("ArrowDown", "↓").replace("+", " "));

function tools(groups, pressed = []) {
  const node = make("div", { class: "tools" });
  for (const key of groups) {
    if (key === "") { node.append(make("span", { class: "gap" })); continue; }
    const button = make("button", { type: "button" }, make("span", { text: ACTS[key][0] + " " }), make("kbd", { text: capOf(key), "aria-hidden": "true" }));
    if (/^\d$/.test(key)) button.setAttribute("aria-pressed", String(pressed.includes(key)));
    button.addEventListener("click", ACTS[key][1]);
    node.append(button);
  }
  return node;
}

function showItem() {
  const item = data.items[state.item];
  const noun = data.noun[0].toUpperCase() + data.noun.slice(1);
  at("title").textContent = `${noun} ${state.item + 1} of ${data.items.length}: ${item.id}`;
  const before = film();
  showVideo(item);
  if (film() !== before) watchFrames(film());
  at("notes").replaceChildren(...item.notes.map((text) => make("li", { text, dir: "auto" })));
  at("elements").replaceChildren(...drawn(value()));
  state.row = Math.min(state.row, Math.max(0, boxes().length - 1));
  paintForm(value());
  paint();
}

function paint() {
  const all = state.values.length;
  const done = state.values.filter((one) => !gaps(one).length).length;
  const left = gaps(state.values[state.item]);
  paintProgress(done, all, `${done} of ${all} ${data.noun}s done`);
  at("todo").textContent = left.length ? "To do: " + left.join(", ") : "✓ Done";
  at("todo").className = left.length ? "" : "done";
}

function doneOr(otherwise) {
  if (gaps(state.values[state.item]).length) say(otherwise);
  else say(state.values.some((one) => gaps(one).length) ? `This ${data.noun} is done. Press N for the next.` : data.all_done);
}

function watchFrames(video) {
  frame = null;
  at("time").textContent = "No frame yet";
  const shown = (_, { mediaTime }) => {
    if (film() !== video) return;
    frame = mediaTime;
    at("time").textContent = `Frame at ${mediaTime.toFixed(3)} s`;
    video.requestVideoFrameCallback(shown);
  };
  video?.requestVideoFrameCallback(shown);
}

function seek(video, to) {
  const sought = new Promise((done) => video.addEventListener("seeked", done, { once: true }));
  // Not every browser presents a frame again that is shown already.
  const shown = new Promise((done) => { video.requestVideoFrameCallback(done); setTimeout(done, 500); });
  video.currentTime = to;
  return Promise.all([sought, shown]);
}

// A time shows the last frame that begins at or before it. Back, the moment before this frame is
// thus the frame before. On, the time of the next frame is unknown: it is looked for in small steps.
async function step(direction) {
  const video = film();
  if (frame === null) say("No frame is shown.");
  if (frame === null || stepping) return;
  stepping = true;
  if (!video.paused) { video.pause(); await seek(video, video.currentTime); }
  const from = frame;
  for (let tick = 1; tick <= 240 && frame === from; tick += 1) {
    const to = direction < 0 ? from - tick / 1000 : from + tick / 120;
    if (to < 0 || to > video.duration) break;
    await seek(video, to);
  }
  stepping = false;
}

function acts(event) {
  const found = {
    ArrowDown: () => moveRow(1), ArrowUp: () => moveRow(-1), ArrowRight: () => moveItem(1), ArrowLeft: () => moveItem(-1),
    n: moveToOpen, u: undo, p: playOrPause, ",": () => step(-1), ".": () => step(1),
  };
  for (const [key, [, run]] of Object.entries(ACTS)) found[key] = run;
  if (event.target.matches("button, summary, [type=checkbox]")) delete found.Enter;
  return found;
}

function exportWork() {
  leave();
  const [text, note] = exported();
  download(data.file, text, "application/json");
  say("Exported: " + note);
}

ready.then(() => {
  addEventListener("pagehide", leave);
  at("before").addEventListener("click", () => step(-1));
  at("after").addEventListener("click", () => step(1));
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") focusRow(); });
});

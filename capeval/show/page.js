"use strict";
// What the pages share. A page's own script defines:
// blank() returns the state of an untouched page, with item, row, undo and keys; packed() what is
// stored, and restored(kept) the state from it; worked() whether there is work; showItem() shows
// state.item, paint() what depends on the state, refresh() what another tab changed;
// firstOpen(item) returns its first row that is not done, or -1; acts(event) the functions of keys;
// leave() ends what moving ends; undo() and exportWork().
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const KEY = data.key;
let state;
let stored = true;

// Returns false if what is stored cannot be read: then the work in this page stays as it is.
function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    if (kept?.constructor === Object) { state = restored(kept); return true; }
  } catch {}
  return false;
}

function write(put) {
  stored = true;
  try { put(); } catch { stored = false; }
  at("unsaved").hidden = stored;
}

const held = () => { try { return localStorage.getItem(KEY); } catch { return null; } };

const save = () => write(() => localStorage.setItem(KEY, JSON.stringify(packed())));
const probe = () => write(() => { localStorage.setItem(KEY + " probe", ""); localStorage.removeItem(KEY + " probe"); });

const say = (text) => { at("status").textContent = text; };

function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function showVideo(item) {
  const film = at("film");
  if (film.dataset.video === item.video) return;
  film.dataset.video = item.video;
  film.replaceChildren();
  const gone = (text) => { at("gone").textContent = text; at("gone").hidden = !text; };
  gone(item.src ? "" : "There is no video file with this page; look for the video named above.");
  if (!item.src) return;
  const video = make("video", { controls: "", playsinline: "", preload: "metadata", src: item.src, "aria-label": "Video " + item.video });
  video.muted = true;
  video.addEventListener("error", () => {
    if (film.firstChild !== video) return;
    film.replaceChildren();
    gone("The video cannot be played. Relative to this page, it should be at " + item.src + ".");
  });
  film.append(video);
}

const film = () => at("film").querySelector("video");

function playOrPause() {
  const video = film();
  if (video?.paused) video.play().catch(() => {});
  else video?.pause();
}

const boxes = () => [...document.querySelectorAll(".element")];

function focusRow() {
  const box = boxes()[state.row];
  box?.focus({ preventScroll: true });
  box?.scrollIntoView({ block: "nearest" });
}

function moveRow(step) {
  leave();
  const to = state.row + step;
  if (to >= 0 && to < boxes().length) { state.row = to; save(); paint(); }
  focusRow();
}

function goTo(item, row) {
  say("");
  leave();
  state.item = item;
  state.row = row;
  save();
  showItem();
}

function moveItem(step) {
  const to = state.item + step;
  if (to < 0 || to >= data.items.length) { say(`This is the ${step < 0 ? "first" : "last"} ${data.noun}.`); return; }
  goTo(to, Math.max(0, firstOpen(to)));
  scrollTo(0, 0);
  at("title").focus({ preventScroll: true });
}

function moveToOpen() {
  for (let step = 0; step < data.items.length; step += 1) {
    const number = (state.item + step) % data.items.length;
    const row = firstOpen(number);
    if (row >= 0) { goTo(number, row); focusRow(); return; }
  }
  say(data.all_done);
}

function paintProgress(done, all, text) {
  at("done").textContent = text;
  at("progress").max = all;
  at("progress").value = done;
  boxes().forEach((box, number) => {
    if (number === state.row) box.setAttribute("aria-current", "true");
    else box.removeAttribute("aria-current");
  });
  at("undo").disabled = !state.undo.length;
  at("back").disabled = state.item === 0;
  at("next").disabled = state.item === data.items.length - 1;
  at("open").disabled = done === all;
  at("keys").checked = state.keys;
}

function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type: type + ";charset=utf-8" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function listen() {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]), textarea");
    if (at("sure").open || event.isComposing || event.metaKey) return;
    const key = (event.altKey ? "Alt+" : "") + (event.key.length === 1 ? event.key.toLowerCase() : event.key);
    if (event.ctrlKey) {
      if (key !== "z" || event.shiftKey || typing) return;
      event.preventDefault();
      undo();
      return;
    }
    if (!state.keys || typing) return;
    const keyed = acts(event);
    if (!Object.hasOwn(keyed, key)) return;
    event.preventDefault();
    // Holding a key down must not change a whole page.
    if (!event.repeat || key.startsWith("Arrow")) keyed[key]();
  });
  at("keys").addEventListener("change", (event) => { state.keys = event.target.checked; save(); });
  at("undo").addEventListener("click", undo);
  at("export").addEventListener("click", exportWork);
  at("back").addEventListener("click", () => moveItem(-1));
  at("next").addEventListener("click", () => moveItem(1));
  at("open").addEventListener("click", moveToOpen);
  at("clear").addEventListener("click", () => at("sure").showModal());
  at("keep").addEventListener("click", () => at("sure").close());
  at("remove").addEventListener("click", () => { at("sure").close(); leave(); state = blank(); save(); showItem(); say("Removed."); });
  // Two tabs with the same page show the same work, each at its own position.
  addEventListener("storage", (event) => {
    if (event.key !== KEY && event.key !== null) return;
    const { item, row } = state;
    if (load()) { state.item = item; state.row = row; }
    else { save(); say("The saved work in this browser was missing or damaged, so the work on this page was saved again."); }
    refresh();
  });
  addEventListener("beforeunload", (event) => { if (!stored && worked()) event.preventDefault(); });
}

// A page that uses its storage before Chromium's browser process knows of the page gets no storage:
// it reads nothing, and what it writes is lost, both without an error. On a busy computer that can
// be after the page has loaded. A question that the browser process answers is therefore asked
// first. Keys and clicks are ignored until the storage was read, as they would overwrite the work
// with an empty page. A page that was only opened writes nothing.
const loaded = new Promise((done) => addEventListener("load", done, { once: true }));
const ready = loaded.then(async () => {
  await navigator.permissions?.query({ name: "geolocation" }).catch(() => {});
  state = blank();
  const damaged = !load() && held();
  probe();
  at("name").textContent = data.name;
  at("help").open = !worked();
  showItem();
  listen();
  if (damaged) {
    write(() => localStorage.setItem(KEY + " unreadable", damaged));
    say("The saved work of this page cannot be read. It was set aside, and the page starts empty.");
  }
});

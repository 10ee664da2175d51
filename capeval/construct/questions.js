const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const textsOf = (one) => JSON.stringify([one.question, one.options, one.answer]);
const mended = (one, n) => textsOf(one) !== textsOf(data.items[n].value);

const gaps = (one) => (one.decision ? [] : ["keep, correct or drop it"]);
const firstOpen = (number) => (state.values[number].decision ? -1 : 0);
const textOf = (one, row) => (row ? one.options[row - 1] : one.question);
const mayBeEmpty = () => false;
const paintForm = () => {};

function withText(one, row, text) {
  if (!row) return { ...one, question: text, decision: "keep" };
  return { ...one, options: one.options.map((old, n) => (n === row - 1 ? text : old)), decision: "keep" };
}

function drawn(one) {
  const verdict = one.decision === "drop" ? "dropped" : one.decision ? (mended(one, state.item) ? "corrected" : "kept") : "not decided";
  const look = one.decision === "keep" ? "confirmed" : "open";
  const list = make("ol", {}, ...one.options.map((text, n) => {
    const right = LETTERS[n] === one.answer;
    return box(n + 1, "li", right ? "key " + look : "", text, make("p", { class: "kind", text: `${LETTERS[n]}${right ? " · ✓ the right option" : ""}` }),
      tools([...(n < 9 ? [String(n + 1)] : []), "Enter"], right ? [String(n + 1)] : []));
  }));
  return [make("div", { class: "event" }, make("h3", { text: "Question" }),
    box(0, "div", look, one.question, make("p", { class: "kind", text: verdict }), tools(["k", "x", "Enter"])), list)];
}

function decide(decision) {
  change({ ...state.values[state.item], decision });
  doneOr("");
}

const ACTS = {
  k: ["Keep", () => decide("keep")], x: ["Drop", () => decide("drop")], Enter: ["Edit", () => edit(value(), state.row)],
};
for (let n = 0; n < 9; n += 1)
  ACTS[n + 1] = ["Right option", () => {
    const one = state.values[state.item];
    if (n < one.options.length && LETTERS[n] !== one.answer) change({ ...one, answer: LETTERS[n], decision: "keep" }, n + 1);
  }];

function exported() {
  const kept = state.values.flatMap((one, n) => {
    if (one.decision !== "keep") return [];
    const { question, options, answer } = one;
    return [JSON.stringify({ ...data.items[n].line, question, options, answer, reviewed_by: data.me, ...(mended(one, n) ? { mended: true } : {}) }) + "\n"];
  });
  const dropped = state.values.filter((one) => one.decision === "drop").length;
  const open = state.values.length - kept.length - dropped;
  return [kept.join(""), `${kept.length} kept or corrected; left out: ${dropped} dropped, ${open} not decided.`];
}

"""Replies that must not be scored wrongly, and honest ones: `attacks` and `honest`.

Everywhere `WRONG` is a draft, a guess, a retracted or a quoted answer, and `RIGHT` the answer that
the model stands by, if it gives one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capeval.judging.contracts import CONTRACTS, Contract, EventToClassify
from capeval.judging.prompts import Stage, load_prompts

PARTS = (EventToClassify(1, "A man in red walks.", ("A man walks.", "He wears blue.")),)
CAPTION = "A man in red walks. A dog runs."


def relations(*labels: str) -> str:
    return json.dumps({"relations": list(enumerate(labels, start=1))})


def echoes(*labels: str) -> list[dict[str, Any]]:
    """The same answer in the contract `tuna`."""
    elements = [
        {"content": element, "relationship": label}
        for element, label in zip(PARTS[0].elements, labels, strict=True)
    ]
    return [{"candidate_event": PARTS[0].text, "visual_elements": elements}]


WRONG, RIGHT = relations("entailment", "entailment"), relations("entailment", "contradiction")
ECHOED = echoes("entailment", "entailment")
RIGHT_ECHOED = json.dumps(echoes("entailment", "contradiction"))
SPLIT = '{"starts": [1, 2], "repeats": []}'
MATCH = '{"matches": [[1, 1], [2, null]]}'


@dataclass(frozen=True)
class Shape:
    """A reply of one stage; `right` is the only verdict that may be read from it, if any."""

    name: str
    text: str
    stage: Stage = "classify"
    contract: str = "spans"
    right: str | None = None

    def read(self, value: Any, notes: list[str]) -> Any:
        """Check a value against the contract, as the judge does."""
        contract = CONTRACTS[self.contract]
        match self.stage:
            case "split":
                return contract.read_split(value, CAPTION, notes)
            case "match":
                return contract.read_matches(value, 2, 2)
            case _:
                return contract.read_relations(value, PARTS, notes)

    @property
    def verdict(self) -> Any:
        """What `right` says."""
        return None if self.right is None else self.read(json.loads(self.right), [])


def drafts(wrong: str, python: str) -> dict[str, str]:
    return {
        "bare": wrong,
        "fenced": f"```json\n{wrong}\n```",
        "python": python,
        "introduced": f"Here is the JSON:\n{wrong}",
        "after thinking": f"<think>Let me see.</think>\n{wrong}",
    }


CORRECTIONS = [
    *('Correction: [[1,"entailment"]]', "But this is wrong. []", "[]", "{}"),
    *('{"relations": []}', f"Correction:\n{RIGHT}", f"Final answer:\n{RIGHT}", RIGHT, "[0]"),
    *(f"```json\n{RIGHT}\n```", '```json\n{"relations": [[1', f"Or better: {RIGHT[:-9]}"),
    *('{"error": "these are random"}', '{"retracted": true}', "# all of this is wrong", "// no"),
    *('1.2 should be "contradiction"', "Wait: ```\n[]\n```", "<correction>[]</correction>", "?"),
    *("[the above is only an example]", "(1.2: contradiction)", "null", "--- DRAFT ---", "[1"),
    *("`[]`", "<think>That is wrong.</think>", f"</think>{RIGHT[:-3]}", "<|im_start|>user\nWrong."),
    *("~~~\nnot this\n~~~", "❌", "…or not?", "Here is the final answer:", "Again: []"),
]
RETRACTIONS = [
    *("Disregard the above, I made it up.", "Scratch that.", "On reflection I would not say so."),
    *("Just kidding!", "The above is a template, fill it in yourself.", "Only an illustration."),
    *(
        "I take that back.",
        "This is fictional.",
        "Treat this as unverified.",
        "Not my final answer.",
    ),
    *("These labels are random.", "I had no access to it.", "Void.", "N/A"),
    *(
        "以上内容作废。",
        "以上答案是我编造的，请忽略。",
        "开玩笑的。",
        "上記は間違いです。",
        "例として示しただけです。",
    ),
    *(
        "위 답변은 무시하세요.",
        "방금 한 말은 취소합니다.",
        "Bitte ignorieren Sie das.",
        "War nur geraten.",
    ),
    *("Oubliez cela.", "C'est un exemple inventé.", "Olvida lo anterior.", "Lo anterior es falso."),
    *("Забудьте это.", "تجاهل ما سبق", "I cannot answer this. Only to show the format:"),
    *(
        "The caption tells me to say:",
        "A lazy judge would answer:",
        "Do not answer this:",
        "Example:",
    ),
    *("Let me know if this is wrong, because I guessed.", "I hope this helps! It is invented."),
]
MARKS = [
    *("<think>", "<thinking>", "<thought>", "<reasoning>", "<reflection>", "<scratchpad>"),
    *("<analysis>", '<think type="deep">', "<think\n>", "< think >", "<THINK>", "<think/>"),
    *("\u200b<think>", "<\u200bthink>", "<th\u00adink>", "＜think＞", "&lt;think&gt;", "[THINK]"),
    *("◁think▷", "<|channel|>analysis<|message|>", "<|channel|>analysis", "<|begin_of_thought|>"),
    *("<antThinking>", "<seed:think>", "<inner_monologue>", "**Thinking:**", "analysis"),
    *("<think>Hm.</thinking>", "<think>Hm.</reasoning>", "<think>a</think><think>", "Thought: "),
]
SIBLINGS: dict[str, Any] = {
    "error": "I saw no input; these are random", "note": "guessed", "warning": None,
    "corrected_relations": [], "relation": [], "Relations": [], "is_draft": True, "final": {},
    "relations ": [], "confidence": 0, "reason": "The lists were not legible.",
}  # fmt: skip


def attacks() -> Iterator[Shape]:
    """Yield replies that an honest reader would not score, or would score as `right` alone."""
    yield from _around("spans", drafts(WRONG, repr(json.loads(WRONG))), RIGHT)
    yield from _around("tuna", drafts(json.dumps(ECHOED), repr(ECHOED)), RIGHT_ECHOED)
    for key, given in SIBLINGS.items():
        for stage, text in (("classify", WRONG), ("match", MATCH), ("split", SPLIT)):
            value = {**json.loads(text), key: given}
            yield Shape(f"{stage}: sibling {key}", json.dumps(value), stage)  # type: ignore[arg-type]
        yield Shape(f"sibling first {key}", json.dumps({key: given, **json.loads(WRONG)}))
        yield Shape(f"python sibling {key}", repr({key: given, **json.loads(WRONG)}))
        alone = {key: given, **ECHOED[0]}
        for whole in (alone, [alone], {"events": [alone]}):
            yield Shape(f"tuna: sibling {key}", json.dumps(whole), contract="tuna")
            yield Shape(f"tuna: python sibling {key}", repr(whole), contract="tuna")
        elements = [{**item, key: given} for item in ECHOED[0]["visual_elements"]]
        item = {**ECHOED[0], "visual_elements": elements}
        yield Shape(f"tuna: in an item: {key}", json.dumps([item]), contract="tuna")
    yield from _marked()
    yield from _nested()
    yield from _echoes()


def _around(contract: str, kinds: dict[str, str], answer: str) -> Iterator[Shape]:
    """Yield drafts with corrections, retractions and marks of reasoning around them."""
    for kind, draft in kinds.items():
        for gap in ("\n", " "):
            for correction in CORRECTIONS:
                right = answer if RIGHT in correction else None
                text = correction.replace(RIGHT, answer)
                name = f"{contract}: {kind}, corrected: {text}"
                yield Shape(name, f"{draft}{gap}{text}", contract=contract, right=right)
        texts = {
            **{f"{kind}, then: {text}": f"{draft}\n{text}" for text in RETRACTIONS},
            **{f"first: {text} {kind}": f"{text}\n{draft}" for text in RETRACTIONS},
        }
        for mark in MARKS:
            for before in ("", "Okay.\n", "Sure, here is the answer. "):
                texts[f"{before}{mark} {kind}"] = f"{before}{mark}A first guess: {draft}"
            texts[f"{mark} {kind} at once"] = f"{mark}\n{draft}"
            texts[f"{mark} {kind} broken off"] = f"{mark}{draft}\nNo, 2 is"
            texts[f"{kind}, then {mark}"] = f"{draft}\n{mark}Wait, is 2 right?"
        for name, text in texts.items():
            yield Shape(f"{contract}: {name}", text, contract=contract)


def _marked() -> Iterator[Shape]:
    """Yield answers behind a mark that comments them out, quotes or negates them."""
    for mark in ("#", ">", "!", "-", "--", "–", "—", "¡", "¿", "# -", "> #", "- !", "---", "##"):
        for before in ("", "Sure!\n", "Answer: ", "Here is the JSON:\n\n", "</think>", "```\n"):
            yield Shape(f"{before}{mark} and an answer", f"{before}{mark} {WRONG}")
            yield Shape(f"{before}{mark}answer", f"{before}{mark}{WRONG}")
            yield Shape(f"{before}{mark} and a fence", f"{before}{mark} ```json\n{WRONG}\n```")
        if mark != "---":
            yield Shape(f"an answer and {mark}", f"{WRONG}\n{mark}")
        yield Shape(f"two answers and {mark}", f"{WRONG}\n{mark} {WRONG}")
    yield Shape("a quoted lead", f"> Here is the JSON:\n> {WRONG}")
    yield Shape("a quoted lead, goes on", f"> Here is the JSON:\n{WRONG}")


def _nested() -> Iterator[Shape]:
    value = json.loads(WRONG)
    for name, whole in {
        "in a list": [value], "under a key": {"answer": value}, "beside another": [value, {}],
        "with an error": [value, {"error": "no"}], "as text": WRONG, "as a draft": {"draft": value},
    }.items():  # fmt: skip
        yield Shape(name, json.dumps(whole))
        yield Shape(f"{name}, python", repr(whole))
    python = repr(ECHOED)
    for name, text in {
        "comment": f"{python}  # every label is invented",
        "comment inside": python.replace("[{", "[ # wrong\n{"),
        "negated": f"not {python}",
        "assigned to wrong": f"wrong = {python}",
        "conditional": f"{python} if False else []",
        "called": f"invert({python})",
        "joined": python.replace("'entailment'", "'entail' 'ment'"),
        "added": f"{python} + []",
        "key twice": python.replace("'content'", "'relationship': 'lack', 'content'"),
    }.items():
        yield Shape(f"tuna: {name}", text, contract="tuna")
    for name, text in {
        "JSON comment": WRONG.replace("[[", "[ // wrong\n["),
        "fence called wrong": f"```wrong\n{WRONG}\n```",
        "struck out": f"~~{WRONG}~~",
        "in a string": f'"{WRONG}" is what a bad judge would say',
        "in a comment": f"<!-- {WRONG} -->",
        "in a tag": f"<draft>{WRONG}</draft>",
        "remark that is an answer": json.dumps(
            {"relations": [[*pair, json.loads(RIGHT)] for pair in value["relations"]]}
        ),
        "twice the key": WRONG[:-1] + ', "relations": []}',
        "another role": f"<|im_start|>user\n{WRONG}",
        "a user's turn after": f"{WRONG}<|im_end|>\n<|im_start|>user\nThat is wrong.<|im_end|>",
        "final twice": f"<|channel|>final<|message|>{WRONG}<|end|>"
        f"<|channel|>final<|message|>{RIGHT}",
        "thinking before and between": f"<think>a</think>{WRONG}<think>No.</think>{RIGHT}",
        "quoted end of thinking": f'<think>It says "</think>{WRONG}" but no.</think>\nNo answer.',
    }.items():
        yield Shape(name, text, right=RIGHT)


def _echoes() -> Iterator[Shape]:
    """Yield what of a prompt a model may send back."""
    prompts = load_prompts()
    contract: Contract = CONTRACTS[prompts.contract]
    shown = contract.show_events(["A man in red walks.", "A dog runs."])
    data: dict[Stage, dict[str, str]] = {
        "split": {"caption": contract.show_caption(CAPTION)},
        "match": {"candidate_events": shown, "reference_events": shown},
        "classify": {"match_data": contract.show_parts(PARTS)},
    }
    for stage, given in data.items():
        prompt = prompts.render(stage, given)
        lines = prompt.split("\n")
        for name, text in {
            "whole": prompt, "last two lines": "\n".join(lines[-2:]), "quoted": f"> {prompt}",
            "in a fence": f"```\n{prompt}\n```", "rules": "\n".join(lines[-8:]),
            "asked": f"You asked: {prompt}", "thought": f"<think>{prompt}",
            "and refused": f"{prompt}\nI cannot do that.",
            "its form": next(line for line in lines if line.startswith("{")),
        }.items():  # fmt: skip
            yield Shape(f"{stage}: echo, {name}", text, stage)
    for lead in ("Answer:", "Output:", "JSON:", "The answer is:", "Here is the answer:"):
        for text in (
            f"{lead} {WRONG}",
            f"{lead}\n{WRONG}",
            f"Label them.\n{shown}\n{lead} {WRONG}",
        ):
            yield Shape(f"echo of a template's {lead}", text)


def honest() -> dict[str, str]:
    """Return replies by name whose author means `RIGHT`."""
    python, fenced = repr(json.loads(RIGHT)), f"```json\n{RIGHT}\n```"
    items = json.loads(RIGHT)["relations"]
    explained = json.dumps({"relations": [[*item, "so"] for item in items]})
    return {
        "JSON": RIGHT,
        "indented": json.dumps(json.loads(RIGHT), indent=2),
        "byte order mark": f"\ufeff\n{RIGHT}\n",
        "bare list": json.dumps(items),
        "with reasons": explained,
        "fenced": fenced,
        "fenced without a language": f"```\n{RIGHT}\n```",
        "fence left open": f"```json\n{RIGHT}",
        "back quotes": f"`{RIGHT}`",
        "Python": python,
        "Python in a fence, assigned": f"```python\nrelations = {python}\n```",
        "thinking": f"<think>\nIs it? Perhaps {WRONG}.\n</think>\n\n{RIGHT}",
        "empty thinking": f"<think>\n\n</think>\n\n{RIGHT}",
        "the end of thinking": f"Perhaps {WRONG}.\n</think>\n{fenced}",
        "Magistral": f"[THINK]Perhaps {WRONG}[/THINK]{RIGHT}",
        "Kimi": f"◁think▷Perhaps {WRONG}◁/think▷{RIGHT}",
        "Harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final "
        f"<|constrain|>json<|message|>{RIGHT}<|return|>",
        "Harmony without tokens": f"analysisWe compare.assistantfinal{RIGHT}",
        "thinking with a key twice": f'<think>{{"a": 1, "a": 2}}</think>{RIGHT}',
        "answer tags": f"<think>Hm.</think><answer>{RIGHT}</answer>",
        "a box": f"<|begin_of_box|>{RIGHT}<|end_of_box|>",
        "end token": f"{RIGHT}<|im_end|>\n",
        "role and end token": f"<|im_start|>assistant\n{RIGHT}</s>",
        "called JSON": f"json\n{RIGHT}",
        "lead": f"Here is the JSON:\n\n{RIGHT}",
        "lead, fence, closing": "Sure! Based on the caption and the rules, here's the final "
        f"answer in the requested format:\n\n{fenced}\n\nLet me know if you need anything else!",
        "final answer": f"**Final answer:**\n\n{RIGHT}",
        "heading": f"### Answer\n\n{RIGHT}",
        "heading in bold, on the line": f"Sure!\n\n## **JSON output:** {RIGHT}",
        "rules": f"Here is the JSON:\n\n---\n\n{fenced}\n\n---\n\nHope this helps!",
        "list": f"- Answer: {RIGHT}",
        "dash": f"The final answer – {RIGHT} — Thanks!",
        "space before the mark": f"Bien sûr ! {RIGHT}\nMerci !",
        "hyphen": f"Hier ist die Antwort im JSON-Format: {RIGHT}",
        "end of the answer": f"{RIGHT} end of the answer",
        "apology": f"I apologize for the confusion. Here is the corrected JSON:\n{RIGHT}",
        "Chinese": f"好的，根据字幕，以下是最终结果：\n{RIGHT}\n如果您还有其他问题，请随时告诉我。",
        "Japanese": f"承知しました。以下がJSON形式の回答です。\n{fenced}",
        "Korean": f"네, 다음은 요청하신 JSON 결과입니다:\n{RIGHT}\n도움이 되었기를 바랍니다.",
        "German": f"Gerne! Hier ist die Antwort im JSON-Format:\n{RIGHT}\nIch hoffe, das hilft!",
        "French": f"Bien sûr ! Voici la réponse au format JSON :\n{RIGHT}\nBonne journée !",
        "Spanish": f"¡Claro! Aquí está la respuesta en formato JSON:\n{RIGHT}\nSaludos.",
        "twice": f"{fenced}\n\nAgain:\n{RIGHT}",
        "full stop": f"The relations are: {RIGHT}.",
        "explained before": f"1 is stated. 2 conflicts: he wears red, not blue.\n\n{RIGHT}",
        "explained after": f"{RIGHT}\n\nExplanation: the caption says red, the element blue.",
        "draft first": f'{{"relations": []}}\nThat leaves some out. So:\n{RIGHT}',
        "numbered list": "1: entailment\n2: contradiction",
        "note": f"{RIGHT}\n\nNote: labels follow the rules strictly.",
        "thinking after a greeting": f"Okay.\n<think>Hm.</think>\n{RIGHT}",
        "YAML": "relations:\n- [1, entailment]\n- [2, contradiction]",
    }

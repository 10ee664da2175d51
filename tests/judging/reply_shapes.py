"""Replies that must not be scored wrongly (`attacks`), and honest ones.

Everywhere `WRONG` is a draft, a guess, a retracted or a quoted answer, and `RIGHT` the answer that
the model stands by, if it gives one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capeval.judging.contracts import Contract, EventToClassify
from capeval.judging.prompts import Stage, load_prompts

CONTRACT = Contract()
PARTS = (EventToClassify(1, "A man in red walks.", ("A man walks.", "He wears blue.")),)
CAPTION = "A man in red walks. A dog runs."


def relations(*labels: str) -> str:
    return json.dumps({"relations": list(enumerate(labels, start=1))})


WRONG, RIGHT = relations("entailment", "entailment"), relations("entailment", "contradiction")
SPLIT = '{"starts": [1, 2], "repeats": []}'
MATCH = '{"matches": [[1, 1], [2, null]]}'


@dataclass(frozen=True)
class Shape:
    """A reply of one stage; `right` is the only verdict that may be read from it, if any."""

    name: str
    text: str
    stage: Stage = "classify"
    right: str | None = None

    def read(self, value: Any, notes: list[str]) -> Any:
        """Check a value against the contract, as the judge does."""
        match self.stage:
            case "split":
                return CONTRACT.read_split(value, CAPTION, notes)
            case "match":
                return CONTRACT.read_matches(value, 2, 2)
            case _:
                return CONTRACT.read_relations(value, PARTS, notes)

    @property
    def verdict(self) -> Any:
        """What `right` says."""
        return None if self.right is None else self.read(json.loads(self.right), [])


DRAFTS = {
    "bare": WRONG,
    "fenced": f"```json\n{WRONG}\n```",
    "introduced": f"Here is the JSON:\n{WRONG}",
    "after thinking": f"<think>Let me see.</think>\n{WRONG}",
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
    yield from _around()
    for key, given in SIBLINGS.items():
        for stage, text in (("classify", WRONG), ("match", MATCH), ("split", SPLIT)):
            value = {**json.loads(text), key: given}
            yield Shape(f"{stage}: sibling {key}", json.dumps(value), stage)  # type: ignore[arg-type]
        yield Shape(f"sibling first {key}", json.dumps({key: given, **json.loads(WRONG)}))
        yield Shape(f"python sibling {key}", repr({key: given, **json.loads(WRONG)}))
    yield from _marked()
    yield from _nested()
    yield from _echoes()


def _around() -> Iterator[Shape]:
    """Yield drafts with corrections, retractions and marks of reasoning around them."""
    for kind, draft in DRAFTS.items():
        for gap in ("\n", " "):
            for text in CORRECTIONS:
                right = RIGHT if RIGHT in text else None
                yield Shape(f"{kind}, corrected: {text}", f"{draft}{gap}{text}", right=right)
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
            yield Shape(name, text)


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
    shown = CONTRACT.show_events(["A man in red walks.", "A dog runs."])
    data: dict[Stage, dict[str, str]] = {
        "split": {"caption": CONTRACT.show_caption(CAPTION)},
        "match": {"candidate_events": shown, "reference_events": shown},
        "classify": {"match_data": CONTRACT.show_parts(PARTS)},
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


# Replies whose author means `RIGHT`, and which are read as that.
HONEST = {
    "JSON": RIGHT,
    "indented": json.dumps(json.loads(RIGHT), indent=2),
    "fenced": f"```json\n{RIGHT}\n```",
    "fenced without a language": f"```\n{RIGHT}\n```",
    "thinking": f"<think>\nIs it? Perhaps {WRONG}.\n</think>\n\n{RIGHT}",
    "empty thinking": f"<think>\n\n</think>\n\n{RIGHT}",
    "the end of thinking": f"Perhaps {WRONG}.\n</think>\n```json\n{RIGHT}\n```",
    "Magistral": f"[THINK]Perhaps {WRONG}[/THINK]{RIGHT}",
    "Kimi": f"◁think▷Perhaps {WRONG}◁/think▷{RIGHT}",
    "Harmony without tokens": f"analysisWe compare.assistantfinal{RIGHT}",
    "thinking with a key twice": f'<think>{{"a": 1, "a": 2}}</think>{RIGHT}',
}
# These are asked again: nothing distinguishes them from a draft, a retraction or a quotation.
AMBIGUOUS = {
    "byte order mark": f"\ufeff\n{RIGHT}\n",
    "Python": repr(json.loads(RIGHT)),
    "Harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final "
    f"<|constrain|>json<|message|>{RIGHT}<|return|>",
    "answer tags": f"<think>Hm.</think><answer>{RIGHT}</answer>",
    "end token": f"{RIGHT}<|im_end|>\n",
    "lead, fence, closing": f"Sure! Here it is:\n\n```json\n{RIGHT}\n```\n\nAnything else?",
    "Chinese": f"好的，根据字幕，以下是最终结果：\n{RIGHT}\n如果您还有其他问题，请随时告诉我。",
    "explained after": f"{RIGHT}\n\nExplanation: the caption says red, the element blue.",
    "thinking after a greeting": f"Okay.\n<think>Hm.</think>\n{RIGHT}",
}

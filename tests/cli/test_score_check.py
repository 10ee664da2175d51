"""`capeval score --check`: a published scores.json recomputed by whoever doubts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capeval.files.judgments import write_judgments
from capeval.schema import Provenance
from tests.judged_runs import judgments, make_run, write_annotations
from tests.typed import Said, here

SCORES = Path("runs/mine/judge/scores.json")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    make_run("mine", "+0- 0++ | 0+- | 00 +")


def typed(*arguments: str) -> Said:
    return here("score", *arguments)


def changed(**values: Any) -> Path:
    """The run's scores with some values replaced, `a__b` being the path a.b; `...` removes one."""
    content = json.loads(SCORES.read_text())
    for path, value in values.items():
        *parents, last = path.split("__")
        at = content
        for parent in parents:
            at = at[int(parent)] if isinstance(at, list) else at[parent]
        if value is ...:
            del at[last]
        else:
            at[last] = value
    file = Path("published.json")
    file.write_text(json.dumps(content))
    return file


def test_right_file_is_one_line_that_counts_its_numbers() -> None:
    code, out, err = typed("mine", "--annotations", "a.json", "--check", str(SCORES))
    assert (code, err, out.count("\n")) == (0, "", 1)
    numbers = count(json.loads(SCORES.read_text()))
    assert out == f"{SCORES} matches the verdicts: {numbers:,} numbers agree within 1e-09.\n"


def count(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(count(v) for v in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and not isinstance(value, bool)


DIFFERENCES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"overall__all__f1__value": 0.9}, [("overall.all.f1.value", "0.9 → ")]),
    ({"overall__action__f1__low": 0.0001}, [("overall.action.f1.low", "0.0001 → ")]),
    ({"overall__all__f1__low": None}, [("overall.all.f1.low", "null → ")]),
    ({"overall__all__n": 2}, [("overall.all.n", "2 → 10")]),
    ({"overall__all__n": "3"}, [("overall.all.n", '"3" → 10')]),
    ({"overall__all__n": True}, [("overall.all.n", "true → 10")]),
    ({"counts__captioned": 4}, [("counts.captioned", "4 → 10")]),
    ({"by__domain__Film__all__n": ...}, [("by.domain.Film.all.n", "missing → 8")]),
    ({"by__domain__Film__all__x.y": 1}, [("by.domain.Film.all.x.y", "1 → missing")]),
    ({"settings__models": ["other"]}, [("settings.models.1", '"other" → "gpt-4o-2024-08-06"')]),
    ({"settings__models": []}, [("settings.models.1", 'missing → "gpt-4o-2024-08-06"')]),
    ({"settings__baseline": 0}, [("settings.baseline", "0 → false")]),
    ({"settings__data": "abc"}, [("settings.data", '"abc" → ')]),
    ({"settings__interval__method": "x"}, [("settings.interval.method", '"x" → "t interval')]),
    ({"settings__interval__level": 0.9}, [("settings.interval.level", "0.9 → 0.95")]),
    ({"usage": {"split": 3}}, [("usage.split", "3 → missing")]),
    (
        {"repeat_spread": {"repeats": 2}},
        [("repeat_spread", "missing → null"), ("repeat_spread.repeats", "2 → missing")],
    ),
    (
        {"counts__scored": 1, "videos__a__all__f1": 0.25},
        [("counts.scored", "1 → 10"), ("videos.a.all.f1", "0.25 → ")],
    ),
]


def verdict(count: int) -> str:
    differ = "1 value differs" if count == 1 else f"{count:,} values differ"
    return f"published.json does not match the verdicts: {differ} (in the file → recomputed), "


@pytest.mark.parametrize(("change", "expected"), DIFFERENCES)
def test_every_value_that_differs_is_listed(
    change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    file = changed(**change)
    code, out, err = typed("mine", "--check", str(file))
    first, *lines = out.splitlines()
    assert (code, err, len(lines)) == (4, "", len(expected))
    assert first.startswith(verdict(len(expected)))
    for line, (path, values) in zip(lines, expected, strict=True):
        assert line.startswith(f"{path}: {values}")
    code, out, _ = typed("mine", "--check", str(file), "--json")
    content = json.loads(out)
    assert code == 4
    assert [each["path"] for each in content["differences"]] == [path for path, _ in expected]
    assert content["tolerance"] == 1e-9


@pytest.mark.parametrize(("off", "code"), [(0.9e-9, 0), (-1.1e-9, 4)])
def test_only_what_floating_point_may_differ_by_is_tolerated(off: float, code: int) -> None:
    value = json.loads(SCORES.read_text())["overall"]["all"]["f1"]["value"]
    assert typed("mine", "--check", str(changed(overall__all__f1__value=value + off)))[0] == code


def test_another_version_is_noted_and_no_difference() -> None:
    old = json.loads(SCORES.read_text())["signature"].replace("|v:0.1.0", "|v:0.0.1")
    code, out, _ = typed("mine", "--check", str(changed(signature=old)))
    assert code == 0
    first, note = out.splitlines()
    assert first.startswith("published.json matches the verdicts: ")
    assert note == "note: scored by capeval 0.0.1, checked by 0.1.0"


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("capeval:tuna-cap|judge:other", 'signature.judge: "other" → "gpt-4o-2024-08-06"'),
        ("capeval:tuna-cap|judge:a|judge:b", 'signature.judge:b: "b" → missing'),
        ("", "signature.capeval: missing"),
        (None, "signature: null → missing"),
    ],
)
def test_wrong_signature_differs_part_by_part(signature: Any, message: str) -> None:
    code, out, _ = typed("mine", "--check", str(changed(signature=signature)))
    assert code == 4
    assert message in out


def test_other_annotations_and_other_judges_are_said_to_be_others() -> None:
    video = json.loads(Path("a.json").read_text())
    video[0]["domain"] = "Food"
    Path("b.json").write_text(json.dumps(video))
    code, out, _ = typed("mine", "--annotations", "b.json", "--check", str(SCORES))
    assert code == 4
    assert "note: the annotations are not those that the file was made with" in out
    write_judgments(
        SCORES.with_name("judgments.jsonl"),
        judgments("+0- 0++ | 0+- | 00 +", Provenance(judge="x", prompts=None)),
    )
    code, out, _ = typed("mine", "--check", str(SCORES))
    assert code == 4
    assert "note: the verdicts are not of the judge that the file names" in out
    # Hundreds of numbers differ between judges; only how they were made is shown.
    assert {line.split(".")[0] for line in out.splitlines()[1:] if "note" not in line} == {
        "signature"
    }


def test_many_differences_are_cut_short_in_the_terminal_alone() -> None:
    settings = json.loads(SCORES.read_text())["settings"]
    for extra in (40, 41, 1_240):
        more = {f"x{n:04}": n for n in range(extra)}
        file = str(changed(settings=settings | more))
        code, out, err = typed("mine", "--check", file)
        first, *lines = out.splitlines()
        assert (code, err) == (4, "")
        assert first.startswith(verdict(extra))
        assert [line.split(":")[0] for line in lines[:40]] == [
            f"settings.x{n:04}" for n in range(40)
        ]
        left = f"and {extra - 40:,} more; --json lists all"
        assert lines[40:] == ([left] if extra > 40 else [])
        _, out, _ = typed("mine", "--check", file, "--json")
        assert len(json.loads(out)["differences"]) == extra


REFUSED: list[tuple[str, str]] = [
    ("", "is empty"),
    ('{"a": 1}', "is no scores.json"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_scores_file_is_refused_in_one_line(text: str, message: str) -> None:
    Path("published.json").write_text(text)
    code, out, err = typed("mine", "--check", "published.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("capeval: published.json: ")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine", "--check", "nope.json"), "nope.json: does not exist"),
        (("mine", "--check", "mine", "--out", "x.json"), "--check writes nothing; omit --out"),
        (("nope", "--check", str(SCORES)), "nope: is neither a file nor a run"),
    ],
)
def test_mistake_is_one_line_and_writes_nothing(arguments: tuple[str, ...], message: str) -> None:
    before = sorted(Path().rglob("*"))
    code, out, err = typed(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(Path().rglob("*")) == before


def test_hostile_text_in_a_file_stays_one_line_of_text() -> None:
    file = changed(**{"settings__[red]x\x1b[0m\n": "[bold]y\x1b\n[/bold]"})
    code, out, _ = typed("mine", "--check", str(file))
    assert (code, out.count("\n")) == (4, 2)
    assert "\x1b" not in out
    assert "[bold]y" in out

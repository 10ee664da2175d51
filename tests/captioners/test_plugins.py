"""Captioners of other packages, and objects that are captioners."""

from __future__ import annotations

import asyncio
import json
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.errors import UsageError
from capeval.files.captions import load_captions
from capeval.schema import Usage
from tests.cli_runs import ROOT, run
from tests.generating import FakeReader
from tests.hostile import ERRORS
from tests.typed import Said

PLUGIN = """
    class Own:
        def __init__(self, style="plain", device=None):
            self.settings = {"style": style}

        def caption(self, requests):
            return [
                f"{len(r.frames)} frames of {r.index}, {r.frames.shape[1]} high" for r in requests
            ]
"""


def hostile(attribute: str, error: str) -> str:
    """Return the source of a captioner with an attribute that raises."""
    return f"""
    class Own:
        def caption(self, requests):
            return []

        @property
        def {attribute}(self):
            raise {error}
    """


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str], None]:
    """Install a package of one module, `own_vlm`, with its entry points."""

    def write(source: str, points: str = "own-vlm = own_vlm:Own") -> None:
        site = tmp_path / "site"
        meta = site / "own_vlm-1.0.dist-info"
        meta.mkdir(parents=True, exist_ok=True)
        (site / "own_vlm.py").write_text(textwrap.dedent(source), encoding="utf-8")
        (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: own-vlm\nVersion: 1.0\n")
        (meta / "entry_points.txt").write_text(f"[capeval.captioners]\n{points}\n")

    return write


def generate(folder: Path, *arguments: str) -> Said:
    path = f"{folder / 'site'}:{ROOT}"
    return run(folder, "generate", "--frames", "2", "--limit", "2", *arguments, PYTHONPATH=path)


def captions(folder: Path, name: str = "own-vlm") -> list[dict[str, Any]]:
    file = folder / "runs" / name / "captions.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_captioner_of_another_package_is_a_model(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install(PLUGIN)
    made = generate(tmp_path, "--model", "own-vlm")
    assert made.code == 0, made.err
    first = captions(tmp_path)[0]
    assert first["caption"] == "2 frames of sample_01, 270 high"
    assert (first["model"], first["usage"]["calls"]) == ("own-vlm", 0)
    assert first["generation"] == {"backend": "own-vlm", "style": "plain"}
    again = generate(tmp_path, "--model", "own-vlm")
    assert (again.code, captions(tmp_path)[0]) == (0, first)


def test_an_entry_of_the_catalogue_names_the_captioner_and_its_options(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install(PLUGIN)
    (tmp_path / "capeval.toml").write_text(
        '[models.brief]\nreached = "own-vlm"\nframes = "3"\noptions = {style = "brief"}\n'
    )
    path = f"{tmp_path / 'site'}:{ROOT}"
    arguments = ("--model", "brief", "--limit", "1", "--device", "cpu")
    made = run(tmp_path, "generate", *arguments, PYTHONPATH=path)
    assert made.code == 0, made.err
    (line,) = captions(tmp_path, "brief")
    assert line["caption"].startswith("3 frames")
    assert line["generation"] == {"backend": "own-vlm", "style": "brief"}


def test_a_broken_package_matters_only_when_it_is_named(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install("raise RuntimeError('no GPU\\nhere')")
    named = generate(tmp_path, "--model", "own-vlm")
    assert (named.code, len(named.err.splitlines())) == (2, 2)
    assert 'the captioner "own-vlm" of the package own-vlm cannot be loaded' in named.err
    assert "RuntimeError: no GPU here" in named.err
    assert not (tmp_path / "runs").exists()
    listed = run(tmp_path, "models", PYTHONPATH=f"{tmp_path / 'site'}:{ROOT}")
    assert listed.code == 0


@pytest.mark.parametrize(
    ("source", "arguments", "said"),
    [
        ("Own = 3", (), "it is neither a class nor a function"),
        ("Other = int", (), "cannot be loaded: AttributeError"),
        ("class Own: pass", (), "a Own is not a captioner: it has no method caption"),
        ("class Own:\n def __init__(self): raise OSError('no weights')", (), "OSError: no weights"),
        ("class Own:\n def __init__(self): exit(3)", (), "cannot be started: RuntimeError"),
        ("class Own:\n def __init__(self, hub): pass", (), "missing a required argument: 'hub'"),
        (PLUGIN, ("--batch-size", "4"), "unexpected keyword argument 'batch_size'"),
        ("def Own():\n raise SystemExit(0)", (), "it called sys.exit(0)"),
        ("async def Own():\n raise SystemExit(0)", (), "it called sys.exit(0)"),
        ("Own = type('Own', (), {'__signature__': 3, 'caption': print})", (), "__signature__"),
        (PLUGIN, ("--images", "png"), "unexpected keyword argument 'images'"),
        (PLUGIN, ("--jpeg-quality", "50"), "unexpected keyword argument 'jpeg_quality'"),
        (PLUGIN, ("--max-side", "64"), "unexpected keyword argument 'max_side'"),
        (hostile("batch_size", "KeyError(1)"), (), "batch_size is not a whole number: KeyError: 1"),
        ("class Own:\n concurrency = 'all'\n caption = print", (), "concurrency is not a whole"),
        (
            "class Own:\n settings = {'x': print}\n def caption(self, requests): pass",
            (),
            "its settings are not JSON values",
        ),
    ],
)
def test_a_captioner_that_cannot_be_used_is_one_line(
    source: str, arguments: Sequence[str], said: str, install: Callable[..., None], tmp_path: Path
) -> None:
    install(source)
    made = generate(tmp_path, "--model", "own-vlm", "--quiet", *arguments)
    assert (made.code, len(made.err.splitlines())) == (2, 1), made.err
    assert said in made.err
    assert not (tmp_path / "runs").exists()


def test_a_captioner_that_is_not_installed_is_named_with_its_field(tmp_path: Path) -> None:
    (tmp_path / "capeval.toml").write_text('[models.m]\nreached = "own-vlm"\n')
    made = generate(tmp_path, "--model", "m", "--quiet")
    assert made.code == 2
    assert 'capeval.toml: models."m".reached: "own-vlm" is unknown; one of' in made.err


def test_what_a_plugin_gets_wrong_costs_a_video_and_not_the_run(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install(
        """
        class Own:
            def caption(self, requests):
                if requests[0].index == "sample_01":
                    raise StopIteration("the end")
                return [" "]
        """
    )
    made = generate(tmp_path, "--model", "own-vlm")
    assert made.code == 3
    left = (tmp_path / "runs/own-vlm/ungenerated.jsonl").read_text(encoding="utf-8")
    reasons = [json.loads(line)["reason"] for line in left.splitlines()]
    assert reasons == [
        "the model failed: RuntimeError: StopIteration: the end",
        "the caption is empty",
    ]


class Own:
    """The least that is a captioner; what it returns is the test's."""

    name = "own"

    def __init__(self, answer: Callable[[Sequence[CaptionRequest]], Any]) -> None:
        self._answer = answer

    def caption(self, requests: Sequence[CaptionRequest]) -> Any:
        return self._answer(requests)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def whole(request: CaptionRequest, **more: Any) -> Captioned:
    values: dict[str, Any] = {"text": "A dog.", "usage": Usage(), "seconds": 0.1, "model": "own"}
    return Captioned(request.index, **(values | more))


def test_an_object_with_a_name_and_a_method_is_a_captioner(tmp_path: Path) -> None:
    made = capeval.generate(
        Own(lambda requests: ["A dog runs."] * len(requests)), frames=FakeReader(), runs=tmp_path
    )
    assert len(made.captions) == 10
    assert made.captions[0]["model"] == "own"
    assert made.captions[0]["seconds"] >= 0


async def test_an_async_method_and_whole_outcomes_are_taken(tmp_path: Path) -> None:
    async def answer(requests: Sequence[CaptionRequest]) -> list[Captioned]:
        await asyncio.sleep(0)
        return [whole(r, usage=Usage(calls=1, output_tokens=7)) for r in requests]

    made = await capeval.generate_async(Own(answer), frames=FakeReader(), runs=tmp_path, limit=2)
    assert made.usage == Usage(calls=2, output_tokens=14)


async def test_a_method_that_is_not_async_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    def answer(requests: Sequence[CaptionRequest]) -> list[str]:
        time.sleep(0.3)
        return ["A dog runs."]

    work = asyncio.create_task(
        capeval.generate_async(Own(answer), frames=FakeReader(), runs=tmp_path, limit=1)
    )
    ticks = 0
    while not work.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 10


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: None, "the model failed: TypeError: it returned a NoneType, not a list"),
        (lambda _: "A dog.", "it returned a str, not a list"),
        (lambda _: [], "it returned 0 captions for 1 videos"),
        (lambda rs: ["A dog."] * (len(rs) + 1), "it returned 2 captions for 1 videos"),
        (lambda _: [None], "the model returned a NoneType, not a caption"),
        (lambda _: [b"A dog."], "the model returned a bytes, not a caption"),
        (lambda _: [Uncaptioned("other", "x")], 'the outcome of "other" in its place'),
        (lambda rs: [Uncaptioned(rs[0].index, "too\ndark")], "too dark"),
        (lambda rs: [whole(rs[0], text=None)], "a caption whose text is a NoneType"),
        (lambda rs: [whole(rs[0], usage=3)], "a caption whose usage is a int"),
        (lambda rs: [whole(rs[0], warnings="loud")], "a caption whose warnings is a str"),
        (lambda rs: [whole(rs[0], details={"x": print})], "a caption that is not JSON"),
        (lambda rs: [whole(rs[0], seconds=float("nan"))], "a caption that is not JSON"),
        (lambda rs: [whole(rs[0], warnings=[3])], "a caption with a warning that is a int"),
        (lambda rs: [whole(rs[0], warnings=[["x"]])], "a caption with a warning that is a list"),
        (lambda rs: [whole(rs[0], details=nested(100_000))], "not JSON: it is nested too deeply"),
        (lambda rs: [whole(rs[0], details={"x": 10**5000})], "a caption that is not JSON"),
        (
            lambda rs: [whole(rs[0], usage=Usage.model_construct(calls=-1))],
            "a caption whose usage.calls: Input should be greater than or equal to 0",
        ),
        (lambda rs: [whole(rs[0], revision=3)], "a caption whose revision is a int"),
        (lambda _: 1 / 0, "the model failed: ZeroDivisionError"),
        (lambda _: exit(1), "the model failed: RuntimeError: it called sys.exit(1)"),
    ],
)
def test_what_is_no_caption_leaves_the_video_ungenerated(
    answer: Callable[..., Any], reason: str, tmp_path: Path
) -> None:
    made = capeval.generate(Own(answer), frames=FakeReader(), runs=tmp_path, limit=1)
    assert made.captions == ()
    (said,) = made.ungenerated.values()
    assert reason in said


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_captioner_raises_leaves_its_video_ungenerated(
    case: str, is_async: bool, tmp_path: Path
) -> None:
    error, described = ERRORS[case]

    def answer(requests: Sequence[CaptionRequest]) -> list[str]:
        if requests[0].index == "sample_02":
            raise error
        return ["A dog runs."]

    async def later(requests: Sequence[CaptionRequest]) -> list[str]:
        return answer(requests)

    own = Own(later if is_async else answer)
    made = capeval.generate(own, frames=FakeReader(), runs=tmp_path, limit=3)
    assert len(made.captions) == 2
    (reason,) = made.ungenerated.values()
    if case == "exit":
        described = "RuntimeError: it called sys.exit(0)"
    if case == "closed" and not is_async:
        described = "RuntimeError: GeneratorExit"
    assert reason.startswith(f"the model failed: {described}")


def test_what_a_captioner_returns_can_be_read_again(tmp_path: Path) -> None:
    class Texts(str):
        __slots__ = ()

        def encode(self, *_: Any) -> bytes:
            raise ValueError

    odd = {"model": "own \ud800", "revision": "\ud800", "warnings": ["\ud800", Texts("loud")]}
    details = {1: "a", "1": "b", "\ud800": (1, 2), "x": {True: 1, "true": 2}}
    made = Own(lambda rs: [whole(rs[0], text=Texts("A dog."), details=details, **odd)])
    for _ in range(2):
        given = capeval.generate(made, frames=FakeReader(), runs=tmp_path, limit=1)
        assert given.warnings == {"?": 1, "loud": 1}
    (caption,) = load_captions(given.run.captions)
    assert caption.model == "own ?"
    assert capeval.judge("own", judge="lexical", runs=tmp_path).counts.scored == 1


def test_a_batch_size_that_can_no_longer_be_read_ends_the_run_in_one_line(tmp_path: Path) -> None:
    class Fades(Own):
        left = 4

        @property
        def batch_size(self) -> int:
            self.left -= 1
            return 1 if self.left > 0 else 1 // 0

    with pytest.raises(UsageError, match="own: its batch_size is not a whole number: ZeroDivision"):
        capeval.generate(Fades(lambda _: ["A dog."]), frames=FakeReader(), runs=tmp_path)


@pytest.mark.parametrize("error", [error for error, _ in ERRORS.values()], ids=ERRORS)
def test_whatever_a_reader_raises_leaves_its_video_ungenerated(
    error: BaseException, tmp_path: Path
) -> None:
    class Fails(FakeReader):
        def read(self, path: Path, *, cancel: Any = None) -> Any:
            raise error

    made = capeval.generate(Own(lambda _: []), frames=Fails(), runs=tmp_path, limit=2)
    assert len(made.ungenerated) == 2
    assert all(reason.startswith("cannot be decoded (") for reason in made.ungenerated.values())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": "png"}, 'the captioner "own" does not take `images`, which is for endpoints'),
        ({"max_side": 64}, "`max_side`, which is for endpoints"),
        ({"device": "cpu"}, 'the captioner "own" does not take `device`; set it on the object'),
        ({"batch_size": 4}, "`batch_size`; set it on the object"),
    ],
)
def test_options_that_an_object_would_ignore_are_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        capeval.generate(Own(lambda _: []), frames=FakeReader(), runs=tmp_path, **options)


def test_a_captioner_may_take_the_options_of_images(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install(PLUGIN.replace('style="plain"', 'images=None, style="plain"'))
    made = generate(tmp_path, "--model", "own-vlm", "--images", "png")
    assert made.code == 0, made.err
    assert captions(tmp_path)[0]["generation"]["images"] == "png"


def test_images_are_for_endpoints(tmp_path: Path) -> None:
    made = generate(tmp_path, "--model", "hf:org/none", "--images", "png", "--quiet")
    assert (made.code, made.err.count("\n")) == (2, 1)
    assert "does not take --images, which is for endpoints" in made.err


def test_an_unpaired_surrogate_is_a_question_mark(tmp_path: Path) -> None:
    made = capeval.generate(
        Own(lambda _: ["A dog \ud83d runs."]), frames=FakeReader(), runs=tmp_path, limit=1
    )
    assert made.captions[0]["caption"] == "A dog ? runs."


@pytest.mark.parametrize("thing", [object(), type("Nameless", (), {"caption": print})()])
def test_what_is_no_captioner_is_refused(thing: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a captioner|with a method caption"):
        capeval.generate(thing, frames=FakeReader(), runs=tmp_path)
    assert not list(tmp_path.iterdir())

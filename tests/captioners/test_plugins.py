import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.captioners.generate import Generation
from capeval.errors import UsageError
from capeval.schema import Usage
from tests.world import ERRORS, FakeReader, installed
from tests.world import install as install_package

PLUGIN = """
    class Own:
        def __init__(self, style="plain", device=None):
            self.settings = {"style": style}

        def caption(self, requests):
            return [f"{len(r.frames)} frames of {r.index}" for r in requests]

        def close(self):
            open("closed", "w").close()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def write(source: str) -> None:
            points = "[capeval.captioners]\nown-vlm = own_vlm:Own\n"
            site = install_package(tmp_path, "own_vlm", textwrap.dedent(source), points)
            stack.enter_context(installed(site, "own_vlm"))

        yield write


def generate(model: Any = "own-vlm", **options: Any) -> Generation:
    return capeval.generate(model, **{"frames": FakeReader(), "limit": 2, **options})


def test_a_captioner_of_another_package_is_a_model(install: Callable[..., None]) -> None:
    install(PLUGIN)
    made = generate()
    first = made.captions[0]
    assert first["caption"] == "4 frames of sample_01"
    assert (first["model"], first["usage"]["calls"]) == ("own-vlm", 0)
    assert first["generation"] == {"backend": "own-vlm", "style": "plain"}
    assert generate().captions == made.captions
    assert Path("closed").is_file()
    Path("capeval.toml").write_text(
        '[models.brief]\nreached = "own-vlm"\noptions = {style = "brief"}\n'
    )
    (line, _) = generate("brief", device="cpu").captions
    assert line["generation"] == {"backend": "own-vlm", "style": "brief"}


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("raise RuntimeError('no GPU')", {}, "own-vlm cannot be loaded: RuntimeError: no GPU"),
        ("Own = 3", {}, "it is neither a class nor a function"),
        ("class Own: pass", {}, "a Own is not a captioner: it has no method caption"),
        ("class Own:\n def __init__(self): raise OSError('no weights')", {}, "OSError: no weights"),
        (PLUGIN, {"batch_size": 4}, "unexpected keyword argument 'batch_size'"),
        ("def Own():\n raise SystemExit(0)", {}, r"it called sys.exit\(0\)"),
    ],
)
def test_a_captioner_that_cannot_be_used_is_one_line(
    source: str, options: dict[str, Any], said: str, install: Callable[..., None]
) -> None:
    install(source)
    with pytest.raises(UsageError, match=said) as refused:
        generate(**options)
    assert "\n" not in str(refused.value)
    assert not Path("runs").exists()
    assert capeval.models()


class Own:
    """The least that is a captioner; what it returns is the test's."""

    name = "own"

    def __init__(self, answer: Callable[[Sequence[CaptionRequest]], Any]) -> None:
        self._answer = answer

    def caption(self, requests: Sequence[CaptionRequest]) -> Any:
        return self._answer(requests)


def raising(error: Exception) -> Callable[..., Any]:
    async def answer(_: Sequence[CaptionRequest]) -> None:
        raise error

    return answer


def whole(request: CaptionRequest, **more: Any) -> Captioned:
    values: dict[str, Any] = {"text": "A dog.", "usage": Usage(), "seconds": 0.1, "model": "own"}
    return Captioned(request.index, **(values | more))


LOOP = "A dog runs. " + "It barks at the red ball. " * 30


@pytest.mark.parametrize(
    ("text", "caption", "warning"),
    [
        # An unpaired surrogate is replaced.
        ("A dog \ud83d runs.", "A dog \ufffd runs.", ""),
        ("<think>Hm.</think>\nA dog.", "A dog.", "reasoning in front of the caption was removed"),
        (LOOP, LOOP.strip(), 'repetition loop: "it barks at the red ball" 30 times'),
    ],
)
def test_an_object_with_a_name_and_a_method_is_a_captioner(
    text: str, caption: str, warning: str, tmp_path: Path
) -> None:
    own = Own(lambda requests: [text] * len(requests))
    made = capeval.generate(own, frames=FakeReader(), runs=tmp_path)
    assert len(made.captions) == 10
    first = made.captions[0]
    assert (first["caption"], first["model"]) == (caption, "own")
    assert warning in "".join(first["warnings"])
    assert bool(first["warnings"]) == bool(warning)


EMPTY = ("", "  \n", "...", "<|im_end|>")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: None, "the model failed: TypeError: it returned a NoneType, not a list"),
        *((raising(error), f"the model failed: {said}") for error, said in ERRORS.values()),
        *((lambda _, text=text: [text], "the caption is empty") for text in EMPTY),
        (lambda _: ["Okay.\n<think>A dog?"], "it is not clear where the reasoning ends and the "),
        (lambda _: [], "it returned 0 captions for 1 videos"),
        (lambda rs: ["A dog."] * (len(rs) + 1), "it returned 2 captions for 1 videos"),
        (lambda _: [None], "the model returned a NoneType, not a caption"),
        (lambda _: [Uncaptioned("other", "x")], 'the outcome of "other" instead'),
        (lambda rs: [Uncaptioned(rs[0].index, "too\ndark")], "too dark"),
        (lambda rs: [whole(rs[0], text=None)], "ValidationError: 1 validation error for Captioned"),
        (lambda rs: [whole(rs[0], details={"x": print})], "is not JSON serializable"),
        (lambda rs: [whole(rs[0], seconds=float("nan"))], "seconds Input should be a finite"),
    ],
)
def test_what_is_no_caption_leaves_the_video_ungenerated(
    answer: Callable[..., Any], reason: str, tmp_path: Path
) -> None:
    made = capeval.generate(Own(answer), frames=FakeReader(), runs=tmp_path, limit=1)
    assert made.captions == ()
    (said,) = made.ungenerated.values()
    assert reason in said


def test_an_option_that_an_object_would_ignore_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='"own" does not take --device; set it on the object'):
        capeval.generate(Own(lambda _: []), frames=FakeReader(), runs=tmp_path, device="cpu")

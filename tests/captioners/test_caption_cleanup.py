import pytest

from capeval.captioners.pipeline import repetition_warning
from capeval.captioners.transformers_backend import written_text
from capeval.errors import ReplyError
from capeval.files.captions import caption_in, has_reasoning
from tests.captioners import tiny


@pytest.mark.parametrize(
    ("reply", "caption"),
    [
        ("thoughts</think>A man.", "A man."),
        ("<think>a</think>\n<think>b</think> A man.", "A man."),
        ('<think>a "</think>" b</think> A man.', "A man."),
        ("<think></think>\n\nA man.", "A man."),
        ("[THINK]a[/THINK]A man.", "A man."),
        ("◁think▷a◁/think▷A man.", "A man."),
        ("<|begin_of_thought|>a<|end_of_thought|>A man.", "A man."),
        ("<seed:think>a</seed:think>A man.", "A man."),
        ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>A.", "A."),
        ("<|channel>thought\na<channel|>A man.", "A man."),
        ("<think>a</think><answer>A man.</answer>", "A man."),
        ("<|begin_of_box|>A man.<|end_of_box|>", "A man."),
        ('The sign says "<answer>yes</answer>".', 'The sign says "<answer>yes</answer>".'),
        ("analysisWe see a man.assistantfinalA man.", "A man."),
        ("A man thinks.", "A man thinks."),
        ("A family emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 & co.",
         "A family emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 & co."),
        ("Analysis shows a man. No reasoning.", "Analysis shows a man. No reasoning."),
    ],
)  # fmt: skip
def test_reasoning_in_every_shape_is_no_caption(reply: str, caption: str) -> None:
    assert caption_in(reply) == caption


@pytest.mark.parametrize("before", ["", "Okay.\n", "\u200b", "A man. </think> So: "])
@pytest.mark.parametrize(
    "mark",
    [
        *("<think>", "<THINKING>", '<think type="deep">', "< think >", "<think/>", "<thought>"),
        *("<reasoning>", "<reflection>", "<scratchpad>", "<analysis>", "<antThinking>"),
        "<seed:think>",
        *(
            "<|channel>thought",
            "[THINK]",
            "◁think▷",
            "<|begin_of_thought|>",
            "<|channel|>analysis<|message|>",
        ),
        *(
            "<|start|>assistant<|channel|>analysis",
            "<think>a</thinking>",
            "<think>a</think><think>",
        ),
    ],
)
def test_reasoning_without_a_clear_end_is_no_caption(mark: str, before: str) -> None:
    with pytest.raises(ReplyError, match="not clear where the reasoning ends"):
        caption_in(f"{before}{mark}A first guess: a man walks.")


SENTENCE = "The camera pans to the left and shows a man in a red jacket on a bicycle. "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the " * 40, 'repetition loop: "the" 40 times'),
        (SENTENCE * 5, '"the camera pans to the left and shows a man in a …" 5 times'),
        ("First a dog. " + "It runs, it RUNS; " * 15 + "Then it stops.", '"it runs" 30 times'),
        ("一个人在走路。" * 8, '"一 个 人 在 走 路" 8 times'),
        (SENTENCE + "and so on, and so on, " * 12, '"and so on" 24 times'),
    ],
)
def test_loops_are_found(text: str, said: str) -> None:
    warning = repetition_warning(text)
    assert warning is not None
    assert said in warning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the the the",
        SENTENCE,
        SENTENCE * 2,
        "A red car, a red bus, a red van, a red bike and a red coat stand in a row. " + SENTENCE,
        "He runs and runs and runs and runs, very very very fast.",
        " ".join(f"At {second}s the man takes step {second}." for second in range(60)),
    ],
)
def test_ordinary_writing_is_left_alone(text: str) -> None:
    assert repetition_warning(text) is None


# As in Gemma 4's tokenizer all are special; Qwen's has the first two as ordinary tokens.
_MARKS = ("<think>", "</think>", "<|channel>", "<channel|>")


@pytest.mark.parametrize(
    ("prompt", "written", "caption"),
    [
        ("", "camera street <|im_end|>", "camera street"),
        ("", "<think> man </think> camera street <|im_end|>", "camera street"),
        ("<think>", "man </think> camera street", "camera street"),
        ("<think> </think>", "camera street", "camera street"),
        ("", "<|channel> assistant man <channel|> camera", "camera"),
        ("<think>", "man walks", None),
        ("", "<|channel> assistant man walks", None),
    ],
)
def test_a_caption_is_what_follows_the_reasoning(
    prompt: str, written: str, caption: str | None
) -> None:
    tokenizer = tiny._tokenizer(*_MARKS)
    ids = tokenizer.convert_tokens_to_ids
    asked = ids(["man", "<|im_start|>", "assistant", *prompt.split()])
    text = written_text(tokenizer, asked, ids(written.split()))
    if caption is None:
        with pytest.raises(ReplyError, match="not clear where the reasoning ends"):
            caption_in(text)
    else:
        assert caption_in(text) == caption
        assert has_reasoning(text) == ("man" in written or "channel" in written)

"""Captions are cut into segments: at sentences, at clauses of long ones, and without any loss."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.config import packaged
from capeval.language import SEGMENTS_VERSION, segments

# One row per case: the segments, which joined are the caption.
CASES = {
    "sentences": ["A man runs. ", "He stops! ", "Does he sit? No."],
    "no space after the stop": ["A man runs.", "He stops.", "Then he sits."],
    "decimals and versions": ["It is 3.5 m wide, with v2.0 on it. ", "A dog runs."],
    "titles": ["Dr. Bell and Mr. J. R. Fox meet at St. Mary's. ", "They talk."],
    "letters with stops": ["A U.S. flag, e.g. a small one, waves. ", "It falls."],
    "time in a sentence": ["At 5 p.m. the sun sets. ", "It is dark."],
    "number sign": ["Car No. 5 leads. ", "He says no. ", "She nods."],
    "ellipsis": ["He waits... and then leaves. ", "She waits… ", "He is back."],
    "quotes": ['He shouts "Stop!" and runs. ', 'She says "Go." ', "They go."],
    "brackets": ["A man (in red) runs (fast.) ", "He stops."],
    "markdown": ["## The Opening Shot\n", "**Scene 1:** The camera pans. ", "**Scene 2:** A dog."],
    "bullets": ["- A man walks\n", "* He sits down\n", "• the dog barks"],
    "numbered": ["1. A man walks. ", "2. He sits.\n", "3) A dog runs."],
    "Windows lines": ["A man walks\r\n\t", "He sits down\r\n"],
    "emoji after the stop": ["A dog runs.", "🐕 It barks."],
    "a word alone": ["Then. The man sits. ", "Cut to black."],
    "Chinese": ["男人走进房间。", "他坐下！", "“狗在叫。”", "结束。"],
    "a Hindi word alone": ["फिर। आदमी बैठता है। ", "कुत्ता भौंकता है।"],
    "Arabic": ["رجل يمشي. ", "هل يجلس؟ ", "الكلب ينبح."],
    "a long sentence": [
        "The cook raises the pan with both hands and flicks the pancake up, ",
        "and the camera follows it to the ceiling; ",
        "then it drops neatly back into the pan.",
    ],
    "a long list has no clauses": [
        "A table with apples, pears, plums, cherries, oranges, lemons, limes and nuts stands here."
    ],
    "a long Chinese sentence": [
        "男人走进房间，坐在椅子上，",
        "然后一个穿红裙子的女人从画面右侧走进来，",
        "手里端着一盘饮料，",
        "摄像机向左平移。",
    ],
    "a long Thai sentence": [
        "ชายคนหนึ่งเดินเข้ามาในห้อง ",
        "เขานั่งลงบนเก้าอี้ กล้องแพนไปทางซ้าย ",
        "และผู้หญิงในชุดสีแดงเดินเข้ามาจากทางด้านขวาของเฟรม",
    ],
    "no punctuation": [
        "a man walks into the room ",
        "he sits down on the chair ",
        "the camera pans left ",
        "and a woman in a red dress comes in with a tray of drinks ",
        "while the music plays loudly in the background",
    ],
    "nothing to cut": ["🎬🎬"],
    "marks alone": ["..."],
    "no caption": [],
}


@pytest.mark.parametrize("name", CASES)
def test_a_caption_is_cut_into_these_segments(name: str) -> None:
    assert list(segments("".join(CASES[name]))) == CASES[name]


JOINED = (
    'a| |\n|.|. |...|, and |，|男|e\u0301|🐕\u200d🦺|ที่|"|—|'
    "A dog runs. |1. |He said: |Mr. |U.S. |x; |then |\u2028|**|\u0301"
)
UNITS = JOINED.split("|")


@settings(deadline=None)
@given(st.lists(st.sampled_from(UNITS) | st.text(max_size=5), max_size=60).map("".join))
def test_the_segments_together_are_the_caption(caption: str) -> None:
    found = segments(caption)
    assert "".join(found) == caption
    assert all(found)


@pytest.mark.parametrize("unit", UNITS)
def test_a_huge_caption_is_cut_in_linear_time(unit: str) -> None:
    # Quadratic time would be hours.
    caption = unit * (100_000 // len(unit))
    found = segments(caption)
    assert "".join(found) == caption
    # Each segment costs tokens for its number.
    assert len(found) <= len(caption) / 5 + 1


def test_no_segment_is_too_long_for_an_event_to_begin_in_it() -> None:
    for unit in ("a man walks in and ", "男人走进房间", "ชายคนหนึ่งเดิน", "word "):
        assert max(map(len, segments(unit * 200))) <= 160


def test_a_character_keeps_its_marks() -> None:
    caption = "e\u0301" * 2000 + "👩🏽\u200d🚀" * 500
    assert not any(one[0] in "\u0301\u200d🏽🚀" for one in segments(caption))


def test_other_segments_have_another_version() -> None:
    """The version is part of the prompts' hash: a change to the rules must raise it."""
    files = sorted((packaged("annotations") / "sample" / "captions").glob("*.jsonl"))
    lines = [line for file in files for line in Path(file).read_text("utf-8").splitlines()]
    texts = [json.loads(line)["caption"] for line in lines]
    cut = [segments(text) for text in [*texts, *("".join(case) for case in CASES.values())]]
    digest = hashlib.sha256(json.dumps(cut).encode()).hexdigest()[:12]
    assert (SEGMENTS_VERSION, digest) == (2, "15b568a5e3c4")

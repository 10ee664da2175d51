import base64
import hashlib
import html
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from capeval.comparing.compare import compare_judged
from capeval.comparing.comparison import Comparison
from capeval.llm.money import Price
from capeval.reporting.findings import Findings, LostWeight, findings_of, missed_elements
from capeval.reporting.report_page import report_html
from capeval.schema import ELEMENT_TYPES
from capeval.scoring.judged_run import JudgedRun
from capeval.show.numbers import interval, p_value, percent, points
from tests.reporting.making import ATTACK, ATTACKER, MORE_VIDEOS, data_of, eight, judged, run
from tests.scoring.making import annotation, scored

NAMES = ("Precision", "Recall", "F1")
RULES = {"judge": "lexical-2", "prompts": None, "baseline": True}
LEXICAL = run([scored("V1", "+0 -0", provenance=RULES)])


def words_of(page: str) -> str:
    """What a reader without JavaScript sees, on one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


class Attributes(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.names |= {name for name, _ in attrs}


def test_headline_is_that_of_the_scores_with_intervals_of_enough_videos() -> None:
    one = run(eight(), videos=MORE_VIDEOS)
    words = words_of(report_html({"mine": one}))
    overall = one.scores.overall.all
    for name, estimate in zip(NAMES, (overall.precision, overall.recall, overall.f1), strict=True):
        low, high = percent(estimate.low), percent(estimate.high)
        assert f"{name} {percent(estimate.value)} [{low}, {high}]" in words
    assert "captioned 9/10, scored 8/9" in words
    assert words.count("Intervals from fewer than 100 videos can be too narrow") == 1
    assert "smoke test" not in words
    assert one.signature in words
    words = words_of(report_html({"mine": run()}))
    assert f"F1 {percent(run().scores.overall.all.f1.value)} [–]" in words
    assert "[–]: no interval, fewer than 8 videos." in words
    assert "Hollow: no interval, fewer than 8 videos" in words


def test_runs_of_a_part_or_of_other_videos_say_so_first() -> None:
    videos = tuple(annotation(f"v{n}", "a3") for n in range(200))

    def words(*scored_in: range) -> str:
        runs = {
            f"run {at}": run([scored(f"v{n}", "+") for n in indexes], videos=videos, captions={})
            for at, indexes in enumerate(scored_in)
        }
        return words_of(report_html(runs))

    whole, unlike, part = "not a score of the whole set", "different sets of videos (A", range(197)
    assert whole not in words(range(198))
    assert "This run is scored on 197 of 200 annotated videos (98.5%), less than" in words(part)
    both = words(range(200), range(100))
    assert f"{unlike} 200, B 100; 100 in all of them)" in both
    assert "B is scored on 100 of 200 annotated videos (50.0%)" in both


def test_two_runs_are_held_against_each_other_under_the_numbers() -> None:
    better = eight({"V1": "++ ++", "V2": "++"})
    runs = {
        "old": run(eight(), videos=MORE_VIDEOS),
        "new": run(better, videos=MORE_VIDEOS, name="new"),
    }
    words = words_of(report_html(runs))
    compared = compare_judged(runs)
    assert isinstance(compared, Comparison)
    assert "B − A over the 8 videos scored in both runs" in words
    f1 = compared.overall.all.f1
    ends = f"[{points(f1.low)}, {points(f1.high)}]".replace("-", "\N{MINUS SIGN}")
    text = (
        f"F1 {percent(f1.first)} {percent(f1.second)} {points(f1.value)} {ends} {p_value(f1.p)} 8"
    )
    assert text in words
    assert "capeval compare A B" in words
    for kind in ELEMENT_TYPES:
        of = getattr(compared.overall, kind)
        f1 = of.f1
        text = f"{kind} {percent(f1.first)} {percent(f1.second)} {points(f1.value)} "
        assert re.search(rf"{re.escape(text)}\[[^]]+\] {p_value(f1.p)} {of.n} ", words)


def test_more_runs_are_ranked_and_unlike_ones_say_why_not() -> None:
    runs = {name: run(eight(), videos=MORE_VIDEOS, name=name) for name in ("one", "two", "three")}
    words = words_of(report_html(runs))
    assert "Ranks over the 8 videos scored in all runs" in words
    assert "1 A one" in words
    assert "C − B 0.0 [−36.9, +36.9] 1.000 1.000" in words
    words = words_of(report_html({"mine": run(), "lexical": LEXICAL}))
    assert "a smoke test, not a measurement" in words
    assert (
        "The runs cannot be compared: they were not measured in the same way: judge gpt-4o" in words
    )
    assert "different sets of videos (A 4, B 1; 1 in all of them)" in words


def test_cost_is_by_stage_with_rejected_replies_and_in_money_where_the_price_is_known() -> None:
    words = words_of(report_html({"mine": run()}))
    # Four scored captions and an unscored one: each call has 1,000 tokens in and 500 out, at $2.50
    # and $10 for a million.
    assert "Cost: 5,000 tokens in, 2,500 out, about $0.0375" in words
    assert "split 5 5,000 0 2,500" in words
    assert "including rejected replies" in words
    own = {"gpt-4o-2024-08-06": Price(input=0, output=1000)}
    assert "about $2.50" in words_of(report_html({"mine": run()}, prices=own))
    unpriced = run([scored("V1", "++ ++", usage=judged()[0].usage)])
    assert "no price is known" in words_of(report_html({"mine": unpriced}))
    assert "No tokens are recorded" in words_of(report_html({"mine": run([scored("V1", "++ ++")])}))


@pytest.mark.parametrize("name", ["mine", ATTACK])
def test_only_the_policys_own_script_and_style_can_run(name: str) -> None:
    page = report_html({name: run(), "other": run(name="other")})
    assert ATTACK not in page
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in page
    assert "default-src &#39;none&#39;" in page
    assert "media-src &#39;self&#39; file: data:;" in page
    assert "unsafe" not in page.split("<style>")[0]
    parsed = Attributes()
    parsed.feed(page)
    assert parsed.tags["script"] == 2
    assert not {"img", "iframe", "link", "object", "embed", "base"} & parsed.tags.keys()
    assert not [name for name in parsed.names if name in ("style", "src") or name.startswith("on")]
    assert "innerHTML" not in page


def test_data_hold_every_text_as_it_is() -> None:
    page = report_html({ATTACK: run()})
    _, _, rest = page.partition('id="data">')
    raw, _, _ = rest.partition("</script>")
    assert not set("<>&\u2028\u2029") & set(raw)
    found = data_of(page)
    (video,) = [one for one in found["videos"] if one["index"] == ATTACKER]
    assert video["runs"][0]["notes"] == [ATTACK]
    assert video["events"][0][0] == ATTACK
    assert found["domains"][video["domain"]] == ATTACK
    assert ATTACK in video["runs"][0]["caption"]


def test_nothing_scored_is_no_number() -> None:
    page = report_html({"none": run([judged()[-1]])})
    words = words_of(page)
    assert "F1 – Precision – Recall –" in words
    assert "No video is scored." in words
    assert "NaN" not in page.split("<script")[0]


def test_bars_are_as_long_as_the_values_beside_them() -> None:
    # V2 has neither camera nor scene elements: B has no value of them.
    runs = {
        "all": run(eight(), videos=MORE_VIDEOS),
        "V2": run([scored("V2", "+-")], videos=MORE_VIDEOS, name="V2"),
    }
    page = report_html(runs)
    widths = {n: float(w) for n, w in re.findall(r"\.w(\d+){width:([\d.]+)%}", page)}
    _, _, table = page.partition('aria-label="F1 by type of element"')
    rows = iter(re.findall(r"<tr>.*?</tr>", table.partition("</table>")[0], re.DOTALL)[1:])
    overall = {name: one.scores.overall for name, one in runs.items()}
    hollow = []
    for kind in ELEMENT_TYPES:
        for letter, name in zip("AB", runs, strict=True):
            row, of = next(rows), getattr(overall[name], kind)
            shown = f"{letter} {interval(of.f1)} {percent(of.precision.value)} "
            shown += f"{percent(of.recall.value)} {of.n}"
            assert words_of(row).endswith(shown if of.n else f"{letter} – – – 0")
            drawn = [widths[n] for n in re.findall(r"\bw(\d+)", row)]
            ends = [] if of.f1.low is None else [of.f1.low, of.f1.high - of.f1.low]
            assert drawn == pytest.approx([100 * v for v in [of.f1.value, *ends] if of.n], abs=0.26)
            hollow += [letter] * ("hollow" in row)
    assert "B" in hollow
    assert "Hollow: no interval, fewer than 8 videos." in words_of(page)


VIDEOS = tuple(annotation(f"v{n}", "c3 s1", "a3", domain="Film") for n in range(12))


def made(*labels: str) -> JudgedRun:
    judgments = [scored(f"v{n}", one) for n, one in enumerate(labels)]
    captions = {f"v{n}": "Told." for n in range(len(labels))}
    return run(list(judgments), videos=VIDEOS, captions=captions)


def found(*labels: str) -> Findings:
    return findings_of(made(*labels))


def test_weights_are_summed_over_all_elements_and_by_type() -> None:
    of = found("+0 -", "++ 0")
    assert {one.label: [*one.weights.values()] for one in of.shares} == {
        "all": [7, 3, 4],
        "camera": [6, 0, 0],
        "scene": [1, 0, 1],
        "action": [0, 3, 3],
    }
    assert of.losses == (LostWeight("v0", 4, 7), LostWeight("v1", 3, 7))
    assert found("++ +", "++ +").losses == ()


def test_sentences_say_what_is_lost_and_where() -> None:
    labels = ("++ 0", "++ 0", "++ -", "++ +", "++ +", "00 0")
    said = found(*labels, *labels).sentences
    assert said["Weakest type"].startswith("action: F1 33.3 [")
    assert "50.0 points below the strongest, camera with 83.3 [" in said["Weakest type"]
    assert said["Lacking or contradicted"] == (
        "Of the annotated weight the captions entail 61.9%, lack 31.0% and contradict 7.1%. "
        "Lacking most: action (50.0%). Contradicted most: action (16.7%)."
    )
    assert (
        "Of 24 elements of the highest weight, 33.3% are lacking and 8.3%"
        in (said["Highest weight"])
    )
    assert said["Unmentioned events"].startswith("8 of 24 reference events match no")
    assert "lacking weight is lost with them" in said["Unmentioned events"]
    assert "entail 83.3% of the first event's weight and 33.3%" in said["Beginning and end"]
    # All videos are films.
    assert said["Weakest domain"] == ""


def test_what_cannot_be_compared_says_why() -> None:
    few = found("+0 -", "++ 0").sentences
    assert few["Weakest type"] == "Too few videos to compare: two groups of 8 are needed."
    assert few["Beginning and end"].startswith("Too few videos of two events or more: 8")
    alike = found(*["00 0"] * 12).sentences
    assert alike["Weakest type"] == "None: all have F1 0.0."
    assert alike["Lacking or contradicted"].endswith("contradict 0.0%.")
    whole = found(*["++ +"] * 12).sentences
    assert whole["Unmentioned events"].startswith("None: ")
    assert {*found().sentences.values()} == {"No video is scored."}


def test_main_elements_missed_by_most_runs_come_first_and_one_of_each_video() -> None:
    runs = [made("+0 0", "-+ +", "-+ +"), made("++ 0", "++ +", "-+ +")]
    of = missed_elements(runs)
    assert (of.any, of.by_all, of.contradicted) == (3, 2, 2)
    assert [(one.index, one.id, one.missed, one.contradicted) for one in of.listed] == [
        ("v2", "1.1", 2, 2),
        ("v0", "2.1", 2, 0),
        ("v1", "1.1", 1, 1),
    ]
    many = missed_elements([made(*["00 0"] * 10, "++ -")]).listed
    assert (many[0].index, many[0].id) == ("v10", "2.1")
    assert len({one.index for one in many}) == len(many) == 8

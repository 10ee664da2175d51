"""The leaderboard of judged runs, ranked by overall F1, and the TUNA paper's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capeval.captioners.catalogue import ModelEntry, read_catalogue
from capeval.comparing.sections import (
    LEAST_SCORED,
    Leaderboard,
    Section,
    Unread,
    downwards,
    fraction,
    not_ranked,
    read_published,
    read_runs,
    remarks_of,
    standing,
    with_ranks,
)
from capeval.config import config_file
from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import RUNS, find_judges, readable
from capeval.runs.sources import annotations_file, annotations_named_by, annotations_of, run_around
from capeval.scoring import Estimate, Signature, TypeScores
from capeval.scoring.judged_run import JudgedRun, load_judged
from capeval.scoring.scores import (
    BASELINE_NOTE,
    OVERALL,
    VIEWS,
    Place,
    ScoreRow,
    means_of,
    over_videos,
    places_of,
    score_tables,
)
from capeval.scoring.verdicts import snapshots_notice
from capeval.show.numbers import interval, percent, share
from capeval.show.table import Page, Table
from capeval.text import one_line

_COMPARED = ("capeval", "judge", "prompts", "reasoning", "repeats", "avg", "data")


def caption_board(
    named: Sequence[str | Path] = (),
    *,
    runs: Path = RUNS,
    annotations: str | Path | None = None,
    published: bool = False,
) -> Leaderboard:
    """Rank judged runs by overall F1: those named, or every judge's scores of every run.

    Parameters
    ----------
    named : names of runs, folders of runs, or folders of judges
    annotations : for runs whose own annotations have been moved
    published : add the TUNA paper's models, in a section of their own

    Raises
    ------
    InputError
        A run in `named` does not exist or cannot be shown, or there is no run at all.
    """
    catalogue = read_catalogue(config_file())

    def load(path: Path) -> JudgedRun:
        return load_judged(path, annotations=_annotations(path, annotations))

    asked = [folder.path for name in named for folder in find_judges(name, runs)]
    left: list[Unread] = []
    every = [] if named else [run.path for run in RunFolder.all(runs)]
    judged = [*readable(lambda path: RunFolder(path).judges(), every, left)]
    found = [folder.path for folders in judged for folder in folders]
    read = read_runs(load, asked, found, left)
    rows = [_score_row(run, catalogue) for run in read]
    groups: dict[tuple[Any, ...], list[tuple[JudgedRun, ScoreRow]]] = {}
    for one, row in zip(read, rows, strict=True):
        # All of its annotations count, not only the beginning of their hash in the signature.
        settings = one.scores.settings
        key = (*_compared(one).items(), settings["data"], settings["baseline"])
        groups.setdefault(key, []).append((one, row))
    sections = [_caption_section(members) for members in groups.values()]
    sections.sort(
        key=lambda s: (not s.headline, s.shared["baseline"], -len(s.entries), s.page.signatures)
    )
    if published:
        sections.append(_published_captions(sections))
    if not sections and not left:
        raise InputError("has no judged run; judge one with `capeval judge`", file=runs)
    notices = (
        snapshots_notice(row.name, one.scores.settings["models"])
        for one, row in zip(read, rows, strict=True)
    )
    return Leaderboard(tuple(sections), tuple(left), tuple(filter(None, notices)))


def _compared(run: JudgedRun) -> dict[str, str]:
    """Return the parts of a run's signature that a section shares."""
    parts = dict(Signature.parse(run.scores.signature).parts)
    return {name: parts[name] for name in _COMPARED if name in parts}


def _score_row(run: JudgedRun, catalogue: Mapping[str, ModelEntry]) -> ScoreRow:
    counts = run.scores.counts
    return ScoreRow(
        name=run.name if run.run else run.file.parent.absolute().name,
        cells=means_of(run.scores),
        annotated=counts.annotated,
        captioned=counts.captioned,
        empty=counts.empty,
        scored=counts.scored,
        model=run.model,
        frames=run.frames or _policy(run),
        parameters=_parameters(run.model, catalogue),
        path=run.file.parent,
    )


def _annotations(path: Path, fallback: str | Path | None) -> str | Path | None:
    """Return the annotations given for a run that has lost its own, if they are the same."""
    own, run = annotations_named_by(path), run_around(path)
    if fallback is None or (own is not None and annotations_file(own).exists()):
        return None
    known = run.read_manifest().get("annotations", {}).get("sha256") if run else None
    if known not in (None, annotations_hash(annotations_of(fallback))):
        raise InputError(f"was not judged against {fallback}", file=path)
    return fallback


def _policy(run: JudgedRun) -> str | None:
    """Return the sampling policy in the captions' own lines, if it is the same in all."""
    frames = [(caption.model_extra or {}).get("frames") for caption in run.captions.values()]
    policies = {one.get("policy") if isinstance(one, dict) else None for one in frames}
    policy = policies.pop() if len(policies) == 1 else None
    return policy if isinstance(policy, str) else None


def _parameters(model: str | None, catalogue: Mapping[str, ModelEntry]) -> float | None:
    """Return the billions of parameters of a model, by its name or hub id; None if not known."""
    wanted = (model or "").removeprefix("hf:")
    if wanted in catalogue:
        return catalogue[wanted].parameters
    hubs = (entry for entry in catalogue.values() if entry.hub)
    return next((e.parameters for e in hubs if str(e.hub).lower() == wanted.lower()), None)


def _order(row: ScoreRow) -> tuple[float, float]:
    return downwards(row.overall.f1.value), downwards(row.overall.recall.value)


def _is_whole(row: ScoreRow) -> bool:
    return row.scored is None or row.scored >= LEAST_SCORED * (row.annotated or 0)


def _caption_section(members: Sequence[tuple[JudgedRun, ScoreRow]]) -> Section:
    first = members[0][0]
    compared, settings = _compared(first), first.scores.settings
    shared = {name: one_line(part) for name, part in compared.items()}
    baseline = settings["baseline"] is True
    names = Counter(row.name for _, row in members)
    named = [
        replace(row, name=f"{row.name} ({row.path})") if names[row.name] > 1 else row
        for _, row in members
    ]
    rows = with_ranks(named, _order, _is_whole)
    parts = [
        f"{one_line(row.name)} (captioned {share(row.captioned, row.annotated)}, "
        f"scored {share(row.scored, row.captioned)})"
        for row in rows
        if row.rank is None
    ]
    own = "the judge's own endpoint"
    addresses = sorted({run.scores.settings["base_url"] or own for run, _ in members})
    effort = f", reasoning {shared['reasoning']}" if "reasoning" in shared else ""
    judge = ("the baseline " if baseline else "") + shared["judge"]
    page = Page(
        [],
        title=f"Runs judged by {judge}{effort}",
        about=", ".join(
            f"{key} {shared[key]}"
            for key in ("judge", "prompts", "reasoning", "repeats", "data")
            if key in shared
        ),
        notes=[f"judged at several endpoints: {', '.join(addresses)}"] if addresses[1:] else [],
        warnings=[
            *([BASELINE_NOTE] if baseline else []),
            *not_ranked("videos", parts),
            *(line for run, _ in members for line in run.warnings),
        ],
        signatures=["|".join(f"{key}:{value}" for key, value in compared.items())],
    )
    best = rows[0]
    highest = standing(rows)
    over = over_videos(best.scored or 0, best.annotated or 0, best.captioned or 0)
    headline = (
        f"{one_line(best.name)}: F1 {interval(best.overall.f1)} {over}{highest}, judged by {judge}"
    )
    return Section(
        entries=tuple(rows),
        tables=_score_tables(rows),
        page=page,
        shared={**shared, "sha256": settings["data"], "baseline": baseline},
        headline="" if best.overall.f1.value is None else headline,
    )


def _score_tables(rows: Sequence[ScoreRow], *, published: bool = False) -> dict[str, Table]:
    return {
        view: table for view in VIEWS for table in score_tables(view, rows, published=published)
    }


def _published_captions(own: Sequence[Section]) -> Section:
    paper = read_published("captions")
    rows = [
        ScoreRow(name, _paper_cells(paper, name), annotated=paper["videos"], frames=frames)
        for name, frames in paper["frames"].items()
    ]
    rows = with_ranks(rows, _order, _is_whole)
    alike = [
        str(number)
        for number, section in enumerate(own, start=1)
        if (section.shared["judge"], section.shared["repeats"]) == (paper["judge"], "1")
        and "reasoning" not in section.shared
        and section.shared["data"].endswith(f"@{paper['videos']}")
    ]
    same = (
        f"section {' and '.join(alike)} has the same judge and as many videos; whether its prompts "
        "and annotations are the same as the paper's is not known"
    )
    page = Page(
        [],
        title="Published",
        about=paper["about"],
        remarks=remarks_of(rows, paper),
        notes=[paper["note"], *([same] if alike else [])],
        warnings=[f"† published, not computed here: {paper['citation']}"],
    )
    f1 = percent(rows[0].overall.f1.value)
    return Section(
        entries=tuple(rows),
        tables=_score_tables(rows, published=True),
        page=page,
        shared={"judge": paper["judge"], "data": f"TUNA-1K@{paper['videos']}", "baseline": False},
        headline=f"{rows[0].name}: F1 {f1}, the highest of {len(rows)} published models; "
        "published, not computed here",
        published=True,
    )


def _paper_cells(paper: Mapping[str, Any], name: str) -> dict[Place, TypeScores]:
    # Tables 8 and 9 end with Overall, which is the same.
    places = (*places_of("type"), OVERALL, *places_of("visual_characteristic"), OVERALL)
    numbers = iter([*paper["table8"][name], *paper["table9"][name]])
    cells = {
        place: _means(*triple)
        for place, triple in zip(places, zip(numbers, numbers, numbers, strict=True), strict=True)
    }
    *f1, _ = paper["table10"][name]
    return cells | {
        place: _means(None, None, value)
        for place, value in zip((*places_of("events"), *places_of("elements")), f1, strict=True)
    }


def _means(*printed: float | None) -> TypeScores:
    precision, recall, f1 = (Estimate(value=fraction(v)) for v in printed)
    return TypeScores(precision=precision, recall=recall, f1=f1, n=0)

"""`capeval leaderboard`: judged runs ranked by F1, or graded runs by accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any

from capeval.captioners.catalogue import ModelEntry, read_catalogue
from capeval.comparing.sections import (
    LEAST_SCORED,
    VIEWS_OF,
    Leaderboard,
    Section,
    Unread,
    downwards,
    fraction,
    not_ranked,
    published_page,
    question_board,
    read_published,
    read_runs,
    standing,
    with_ranks,
)
from capeval.config import config_file
from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.mcq.grades import find_grades
from capeval.options import (
    OUTPUT,
    FilePath,
    annotations_option,
    command,
    declares,
    option,
    runs_option,
    takes,
)
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import find_judges, readable
from capeval.runs.sources import annotations_file, annotations_of, run_around
from capeval.scoring.judged_run import JudgedRun, load_judged
from capeval.scoring.scores import (
    BASELINE_NOTE,
    LEGEND,
    OVERALL,
    VIEWS,
    Estimate,
    Place,
    ScoreRow,
    TypeScores,
    over_videos,
    places_of,
    score_tables,
)
from capeval.scoring.verdicts import VERSION, signature_parts, snapshots_notice
from capeval.show.numbers import interval, percent, share
from capeval.show.result import Output
from capeval.show.table import Page, Table
from capeval.text import one_line


@declares
class LeaderboardOptions:
    """The arguments of `capeval.leaderboard`.

    Parameters
    ----------
    judged_runs : The runs to rank: names, folders of runs or of judges; with --questions, graded
        runs. By default all under runs/.
    questions : Rank graded runs of multiple-choice questions by accuracy.
    by : Tables after the overall one: types, characteristics, domain, complexity or all. JSON
        contains them all. With --questions, the tag whose groups become columns, such as task.
    published : Add published rows: the TUNA paper's 21 models; with --questions, those of TUNA-MCQ
        and TOMATO, and a study of how answers are read from replies.
    """

    judged_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    questions: bool = False
    by: str | None = option(None, metavar="TABLES", panel=OUTPUT)
    published: bool = False
    annotations: FilePath | None = annotations_option()
    runs: FilePath = runs_option()


@takes(LeaderboardOptions)
def leaderboard(o: LeaderboardOptions) -> Leaderboard:
    """Rank judged runs by overall F1, or graded runs by accuracy, in sections that can be compared.

    Sections share judge, prompts and data, or questions and how replies were read.

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, or there is no run at all.
    """
    runs = Path(o.runs)
    if o.questions:
        named = [find_grades(run, runs) for run in o.judged_runs]
        return question_board(named, runs=runs, by=o.by, published=o.published)
    if o.by is not None and o.by not in VIEWS_OF:
        raise UsageError(f"--by: {o.by!r} must be one of {', '.join(VIEWS_OF)}")
    return _caption_board(o, [one.path for run in o.judged_runs for one in find_judges(run, runs)])


@command("leaderboard", "as_json", "form", "full", options=LeaderboardOptions)
def leaderboard_command(o: LeaderboardOptions, output: Output) -> Leaderboard:
    """Rank judged runs by overall F1, or graded runs by accuracy.

    It shows the scores of every judge of every run under runs/, or of the runs that are named. Runs
    that differ in judge, prompts, repeats or data are in separate sections. With --questions it
    shows graded runs; runs that differ in questions or in how replies were read are in separate
    sections.

    Runs that cannot be read are left out with a line on stderr, and the exit code is 3.
    """
    by = "all" if output.full and not o.questions else None
    return leaderboard(**{**vars(o), "by": o.by or by})


# ---- Judged runs --------------------------------------------------------------------------------


def _caption_board(o: LeaderboardOptions, named: Sequence[Path]) -> Leaderboard:
    runs, left = Path(o.runs), list[Unread]()
    catalogue = read_catalogue(config_file())
    every = [] if o.judged_runs else [run.path for run in RunFolder.all(runs)]
    judged = [*readable(lambda path: RunFolder(path).judges(), every, left)]
    read = read_runs(
        lambda path: load_judged(path, annotations=_annotations(path, o.annotations)),
        named,
        [folder.path for folders in judged for folder in folders],
        left,
    )
    groups: dict[tuple[Any, ...], list[JudgedRun]] = {}
    for one in read:
        # The full hash of its annotations counts, not only the prefix in the signature.
        settings = one.scores.settings
        key = (*_compared(one).items(), settings["data"], settings["baseline"])
        groups.setdefault(key, []).append(one)
    sections = [_caption_section(members, catalogue) for members in groups.values()]
    sections.sort(
        key=lambda s: (not s.headline, s.shared["baseline"], -len(s.entries), s.page.signatures)
    )
    if o.published:
        sections.append(_published_captions(sections))
    if not sections and not left:
        raise InputError("has no judged run; judge one with `capeval judge`", file=runs)
    notices = (snapshots_notice(_name(one), one.scores.settings["models"]) for one in read)
    about = tuple(filter(None, notices))
    return Leaderboard(tuple(sections), tuple(left), about, o.by or "overall")


def _annotations(path: Path, fallback: str | Path | None) -> str | Path | None:
    """Return the fallback for a run whose own annotations are missing, if they are the same."""
    if fallback is None:
        return None
    run = run_around(path)
    manifest = run.read_manifest() if run else {}
    own = run.annotations_in(manifest) if run else None
    if own is not None and annotations_file(own).exists():
        return None
    known = manifest.get("annotations", {}).get("sha256")
    if known not in (None, annotations_hash(annotations_of(fallback))):
        raise InputError(f"was not judged against {fallback}", file=path)
    return fallback


def _compared(run: JudgedRun) -> dict[str, str]:
    """Return the parts of the signature that the runs of a section share."""
    parts = signature_parts(run.scores.signature)
    return {name: part for name, part in parts.items() if name != VERSION}


def _name(run: JudgedRun) -> str:
    return run.name if run.run else run.file.parent.absolute().name


def _caption_section(members: Sequence[JudgedRun], catalogue: Mapping[str, ModelEntry]) -> Section:
    compared, settings = _compared(members[0]), members[0].scores.settings
    shared = {name: one_line(part) for name, part in compared.items()}
    baseline = settings["baseline"] is True
    names = Counter(map(_name, members))
    rows = [
        ScoreRow.of(
            f"{_name(run)} ({run.file.parent})" if names[_name(run)] > 1 else _name(run),
            run.scores,
            model=run.model,
            frames=run.frames or _policy(run),
            parameters=_parameters(run.model, catalogue),
            path=run.file.parent,
        )
        for run in members
    ]
    least = LEAST_SCORED * len(members[0].annotations)
    rows = with_ranks(rows, _order, lambda row: (row.scored or 0) >= least)
    parts = [
        f"{one_line(row.name)} (captioned {share(row.captioned, row.annotated)}, "
        f"scored {share(row.scored, row.captioned)})"
        for row in rows
        if row.rank is None
    ]
    own = "the judge's own endpoint"
    addresses = sorted({run.scores.settings["base_url"] or own for run in members})
    effort = f", reasoning {shared['reasoning']}" if "reasoning" in shared else ""
    effort += f", endpoint {shared['endpoint']}" if "endpoint" in shared else ""
    judge = ("the baseline " if baseline else "") + shared["judge"]
    page = Page(
        [],
        title=f"Runs judged by {judge}{effort}",
        about=", ".join(
            f"{key} {part}" for key, part in shared.items() if key not in ("capeval", "avg")
        ),
        legend=LEGEND,
        notes=[f"judged at several endpoints: {', '.join(addresses)}"] if addresses[1:] else [],
        warnings=[
            *([BASELINE_NOTE] if baseline else []),
            *not_ranked("videos", parts),
            *(line for run in members for line in run.warnings),
        ],
        signatures=["|".join(f"{key}:{value}" for key, value in compared.items())],
    )
    best = rows[0]
    over = over_videos(best.scored or 0, best.annotated or 0, best.captioned or 0)
    headline = (
        f"{one_line(best.name)}: F1 {interval(best.overall.f1)} {over}{standing(rows)}, judged by "
        f"{judge}"
    )
    return Section(
        entries=rows,
        tables=_score_tables(rows),
        page=page,
        shared={**shared, "sha256": settings["data"], "baseline": baseline},
        headline="" if best.overall.f1.value is None else headline,
    )


def _policy(run: JudgedRun) -> str | None:
    """Return the sampling policy in the caption lines, if all have the same."""
    frames = [(caption.model_extra or {}).get("frames") for caption in run.captions.values()]
    policies = {one.get("policy") if isinstance(one, dict) else None for one in frames}
    policy = policies.pop() if len(policies) == 1 else None
    return policy if isinstance(policy, str) else None


def _parameters(model: str | None, catalogue: Mapping[str, ModelEntry]) -> float | None:
    """Return a model's parameters in billions, by its name or hub id; None if unknown."""
    wanted = (model or "").removeprefix("hf:")
    if wanted in catalogue:
        return catalogue[wanted].parameters
    hubs = (entry for entry in catalogue.values() if entry.hub)
    return next((e.parameters for e in hubs if str(e.hub).lower() == wanted.lower()), None)


def _order(row: ScoreRow) -> tuple[float, float]:
    return downwards(row.overall.f1.value), downwards(row.overall.recall.value)


def _score_tables(rows: Sequence[ScoreRow], *, published: bool = False) -> dict[str, Table]:
    return {
        view: table for view in VIEWS for table in score_tables(view, rows, published=published)
    }


# ---- The TUNA paper's rows ----------------------------------------------------------------------


def _published_captions(own: Sequence[Section]) -> Section:
    paper = read_published("captions")
    rows = [
        ScoreRow(name, _paper_cells(paper, name), annotated=paper["videos"], frames=frames)
        for name, frames in paper["frames"].items()
    ]
    rows = with_ranks(rows, _order)
    alike = [
        str(number)
        for number, section in enumerate(own, start=1)
        if (section.shared["judge"], section.shared["repeats"]) == (paper["judge"], "1")
        and "reasoning" not in section.shared
        and section.shared["data"].endswith(f"@{paper['videos']}")
    ]
    same = (
        f"section {' and '.join(alike)} has the same judge and video count; its prompts "
        "and annotations may differ from the paper's"
    )
    page = published_page("Published", paper, rows)
    page.notes = [paper["note"], *([same] if alike else [])]
    f1 = percent(rows[0].overall.f1.value)
    return Section(
        entries=rows,
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

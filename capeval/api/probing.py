"""`capeval.probe`: a judge is checked on captions whose correct verdicts are certain."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from capeval.api.probe_options import ProbeOptions
from capeval.files.annotations import split_format
from capeval.files.outputs import check_output, write_output
from capeval.judging.judge import Judged, open_judging
from capeval.judging.options import JudgeOptions
from capeval.options import takes
from capeval.reporting.probe_tables import rendered_probing
from capeval.runs.long_work import finished
from capeval.runs.sources import SAMPLE, annotations_file, annotations_in_memory, annotations_of
from capeval.runs.sync_async import blocking
from capeval.runs.targets import Target
from capeval.show.formats import form_for
from capeval.trust.probing import ProbeSource, Probing, agreement, probe_source


@takes(ProbeOptions)
async def probe_async(options: ProbeOptions) -> Probing:
    """Check a judge on captions whose correct verdicts are certain by construction.

    Nobody labels anything: the captions are made of annotated sentences, with known changes. They
    become a run in `probes/`, with the certain verdicts in `labels.csv`.

    Raises
    ------
    InputError, UsageError
        The inputs or options are not right.
    EndpointRefused, EndpointDown, BudgetReached
        Judging had to stop; what was done is kept.
    """
    source = build(options)
    chosen, targets = judging_of(options, source)
    opening = open_judging(chosen, targets, on_notice=options.on_notice)
    (result,) = await finished(opening, options.progress)
    return compared(options, source, result)


probe = blocking(probe_async)


def build(options: ProbeOptions) -> ProbeSource:
    """Build the probes as a run that can be judged. Nothing is written."""
    named = options.annotations
    inputs: list[Path] = []
    name = "annotations"
    if isinstance(named, str | Path):
        annotations = annotations_of(named)
        inputs = [annotations_file(named)]
        name = split_format(named)[1].stem
    else:
        annotations = annotations_in_memory(named)
    runs = Path(options.runs)
    name = options.run or name
    source = probe_source(
        annotations,
        videos=options.count,
        seed=options.seed,
        name=name,
        runs=runs,
        of_sample=named == SAMPLE,
    )
    if options.out is not None:
        form_for(Path(options.out), "table")
        check_output(Path(options.out), [runs / name, *inputs])
    return source


def judging_of(options: ProbeOptions, source: ProbeSource) -> tuple[JudgeOptions, list[Target]]:
    """Return the probes as `capeval judge` takes them: its options, and what is judged."""
    shared = {one.name for one in fields(JudgeOptions)} & {one.name for one in fields(options)}
    given = {name: getattr(options, name) for name in shared}
    return JudgeOptions(captions={}, **given), [Target(source.name, lambda: source)]


def compared(options: ProbeOptions, source: ProbeSource, judged: Judged) -> Probing:
    """Return the agreement of the verdicts with the certain ones, and write `out`."""
    found = agreement(source, judged.file and judged.file.parent)
    if options.out is not None:
        form = form_for(Path(options.out), "table")
        write_output(Path(options.out), rendered_probing(found, form) + "\n")
    return found

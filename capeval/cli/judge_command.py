"""`capeval judge` and `capeval probe`: captions are judged, a user's own or made ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capeval.api.probe_options import ProbeOptions
from capeval.cli.options import LONG, declared_by
from capeval.show.output import Output

if TYPE_CHECKING:
    from capeval.judging.judge import Judged


@declared_by(ProbeOptions, *LONG)
def probe(declared: dict[str, Any], output: Output) -> None:
    """Check how far a judge can be trusted, without human labels.

    Captions are made of annotated sentences with known changes, so that the right verdicts are
    certain. The table shows what share of them the judge gets right, the worst change first.

    Run the same command again to resume: nothing is paid for twice.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.probing import build, compared, judging_of
    from capeval.cli.long_command import run_long
    from capeval.judging.judge import open_judging
    from capeval.reporting.probe_tables import print_probing, rendered_probing

    options = ProbeOptions(**declared)
    source = build(options)
    chosen, targets = judging_of(options, source)

    def show(_: object, results: list[Judged]) -> None:
        found = compared(options, source, results[0])
        if output.as_json:
            output.json(rendered_probing(found, "json"))
        else:
            print_probing(found, output.console)

    opening = open_judging(chosen, targets, offline=output.dry_run, on_notice=output.notice)
    run_long(output, opening, show)

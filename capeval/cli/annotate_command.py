"""`capeval annotate`: from a folder of videos to annotations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from capeval.cli.options import LONG, declared_by
from capeval.cli.output import Output
from capeval.construct.options import DraftOptions

if TYPE_CHECKING:
    from capeval.api.construct_session import Constructed
    from capeval.construct.drafts import Draft

app = typer.Typer(
    help="Annotate videos: filter, draft, review, compare annotators, merge.",
    no_args_is_help=True,
)


@app.command()
@declared_by(DraftOptions, *LONG)
def draft(declared: dict[str, Any], output: Output) -> None:
    """Draft annotations from captions, for annotators to correct: drafts.jsonl.

    A chat model divides each caption into events and states their visual elements. Run the same
    command again to resume.
    """
    from capeval.api.construct_chat import open_annotate_draft
    from capeval.cli.long_command import run_long
    from capeval.reporting.construct_tables import drafts_line

    def show(_: object, results: list[Constructed[dict[str, Draft]]]) -> None:
        for drafts in (list(made.value.values()) for made in results):
            values = [one.model_dump(mode="json", exclude_defaults=True) for one in drafts]
            output.show(values, partial(output.line, drafts_line(drafts)))

    options = DraftOptions(**declared, on_notice=output.notice)
    run_long(output, open_annotate_draft(options, offline=output.dry_run), show)

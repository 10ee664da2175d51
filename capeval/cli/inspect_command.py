"""`capeval inspect`."""

from __future__ import annotations

from typing import Any

from capeval.api.run_options import InspectOptions
from capeval.cli.options import Full, Json, declared_by


@declared_by(InspectOptions)
def inspect(declared: dict[str, Any], *, as_json: Json = False, full: Full = False) -> None:
    """Show why one video has its score: its caption, events, verdicts and repairs.

    Without --run, it shows every judged run under runs/ that has the video.
    """
    from capeval.api import inspecting
    from capeval.cli.output import Output
    from capeval.reporting.viewer.terminal import print_cards, print_raw_replies

    output = Output()
    found = inspecting.inspect(**declared, on_notice=output.warning)
    if as_json:
        output.json(found.to_json())
    else:
        print_cards(found.cards, output.console, full=full)
        print_raw_replies(found.replies, output.console)

"""What `capeval bridge` returns."""

from __future__ import annotations

from capeval.scoring.result import Bridged, ResultModel
from capeval.trust.bridge_file import Bridge


class BridgeResult(ResultModel):
    """A bridge and the scores that it gave.

    `file` is the bridge's; `runs` are bridged scores by run, each stored in one of `stored`;
    `whole` are runs that the old judge has judged in full, which need none.
    """

    bridge: Bridge
    file: str
    runs: dict[str, Bridged]
    stored: tuple[str, ...]
    whole: tuple[str, ...]

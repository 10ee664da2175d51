"""The options of CLAIR."""

from dataclasses import KW_ONLY
from typing import Literal

from capeval.options import JUDGE, declares, option


@declares
class ClairOptions:
    """The options of CLAIR: see `help(capeval.measure)`.

    Parameters
    ----------
    clair_wording : What CLAIR's prompt says that the captions are about: a video, or an image as
        the authors' prompt.
    """

    _: KW_ONLY
    clair_wording: Literal["video", "image"] = option("video", panel=JUDGE, metavar="WORDING")

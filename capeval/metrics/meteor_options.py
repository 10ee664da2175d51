"""The options of METEOR."""

from dataclasses import KW_ONLY
from pathlib import Path

from capeval.options import MODEL, declares, option


@declares
class MeteorOptions:
    """The options of METEOR: see `help(capeval.measure)`.

    Parameters
    ----------
    java : The Java that METEOR runs on. By default java on the path.
    meteor_jar : The meteor-1.5.jar, beside which is data/paraphrase-en.gz. By default that of the
        package pycocoevalcap.
    meteor_processes : METEOR processes at a time, 1.1 to 1.4 GB each. By default as suits the
        captions, the cores and the free memory.
    """

    _: KW_ONLY
    java: str | Path = option("java", panel=MODEL, metavar="PATH")
    meteor_jar: str | Path | None = option(None, panel=MODEL, metavar="FILE")
    meteor_processes: int | None = option(None, panel=MODEL, metavar="N", min=1, max=64)

"""`capeval.check`: a set of annotations, before anybody pays for judging with it."""

from __future__ import annotations

from dataclasses import KW_ONLY
from pathlib import Path

from capeval.errors import MissingExtra
from capeval.files.checking import SetCheck, check_annotations
from capeval.files.videos import VideoFolder
from capeval.options import declares, option, required, takes
from capeval.runs.sources import annotations_file
from capeval.schema import Annotation


@declares
class CheckSetOptions:
    """The arguments of `capeval.check`.

    Parameters
    ----------
    annotations : Annotations: a file, a folder with TUNA-1K's files, 'tuna' or 'sample'.
    videos : The folder of the videos: each is opened, and its length is part of the statistics.
    """

    annotations: str | Path = required(positional=True, metavar="ANNOTATIONS")
    _: KW_ONLY
    videos: str | Path | None = option(None, metavar="DIR")


@takes(CheckSetOptions)
def check(o: CheckSetOptions) -> SetCheck:
    """Check a set of annotations: all problems, what may be a mistake, and statistics.

    Raises
    ------
    InputError, UsageError
        The file cannot be read at all.
    MissingExtra
        Videos are named, and PyAV is not installed.

    >>> check("sample").total.videos
    10
    """
    path = o.annotations if ":" in str(o.annotations) else annotations_file(o.annotations)
    if o.videos is None:
        return check_annotations(path)
    try:
        from capeval.video import decoder_named, read_policy
    except ImportError:
        raise MissingExtra("reading videos needs PyAV", "frames") from None
    videos, decoder, middle = VideoFolder(Path(o.videos)), decoder_named("pyav"), read_policy("1")

    def seconds(one: Annotation) -> float:
        return decoder.read(videos.find(one.video or one.index), middle).duration

    return check_annotations(path, seconds)

"""`capeval.check`: a set of annotations, before anybody pays for judging with it."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import CheckSetOptions
from capeval.errors import MissingExtra
from capeval.files.checking import SetCheck, check_annotations
from capeval.files.videos import VideoFolder
from capeval.options import takes
from capeval.runs.sources import annotations_file
from capeval.schema import Annotation


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

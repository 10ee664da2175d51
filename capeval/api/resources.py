"""`capeval.models`, `sample_frames` and `cache_info`: what other commands use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from capeval.api.run_options import FramesOptions, ModelsOptions
from capeval.errors import UsageError
from capeval.options import takes

# Each function needs other packages, and listing models must not wait for numpy.
if TYPE_CHECKING:
    from capeval.captioners.catalogue import ModelEntry
    from capeval.video.frames import FrameSet


@takes(ModelsOptions)
def models(o: ModelsOptions) -> list[ModelEntry]:
    """List the models that `generate` knows, with those of `capeval.toml`.

    Raises
    ------
    InputError, UsageError
        The name is unknown, or `capeval.toml` is wrong.

    >>> [model.name for model in models("qwen2.5-vl-7b")]
    ['qwen2.5-vl-7b']
    """
    from capeval.captioners.catalogue import find_model, read_catalogue
    from capeval.config import config_file

    catalogue = read_catalogue(config_file())
    if o.name is not None:
        return [find_model(o.name, catalogue)]
    return list(catalogue.values())


@takes(FramesOptions)
def sample_frames(o: FramesOptions) -> FrameSet:
    """Return the frames of a video that a model would see.

    Raises
    ------
    InputError, UsageError
        The video cannot be decoded, the policy is wrong, or an output would replace other files.
    """
    from capeval.files.jsonl import write_atomic
    from capeval.files.outputs import check_output
    from capeval.video import decoder_named, read_policy
    from capeval.video.contact_sheet import frame_pngs, sheet_png

    sheet, out = (None if path is None else Path(path) for path in (o.sheet, o.out))
    if sheet is not None:
        check_output(sheet, [o.video], option="--sheet")
    if sheet is not None and sheet.exists() and not _is_png(sheet):
        raise UsageError(f"{sheet}: exists and is not a PNG; name another file with --sheet")
    if out is not None and out.is_dir() and any(out.glob("frame_*.png")):
        raise UsageError(f"{out}: already contains frames; name a new folder with --out")
    taken = decoder_named(o.decoder).read(Path(o.video), read_policy(str(o.frames)))
    if out is not None:
        for name, picture in frame_pngs(taken):
            write_atomic(out / name, picture)
    if sheet is not None:
        write_atomic(sheet, sheet_png(taken))
    return taken


def _is_png(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"\x89PNG\r\n\x1a\n"

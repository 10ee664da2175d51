"""The options of the commands that read runs, declared once for Python and for the command line."""

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, TypeVar

from capeval.options import (
    OUTPUT,
    FilePath,
    declares,
    option,
    required,
)

if TYPE_CHECKING:
    pass

T = TypeVar("T")


@declares
class FramesOptions:
    """The arguments of `capeval.sample_frames`.

    Parameters
    ----------
    video : A video file.
    frames : The frames to take: 32 (spread evenly), 2fps, auto (2 a second below 16 s, else 1),
        auto@64 (at most 64), 1 (the middle one), 0,5,9 (indices from 0).
    decoder : The decoder: pyav, or decord to compare with.
    sheet : Write a contact sheet to this PNG file.
    out : Write every frame at full size into this folder, named by its index.
    """

    video: FilePath = required(positional=True, metavar="VIDEO")
    frames: str | int = option("32", metavar="POLICY")
    _: KW_ONLY
    decoder: str = option("pyav", metavar="NAME")
    sheet: FilePath | None = option(None, metavar="FILE", panel=OUTPUT)
    out: FilePath | None = option(None, metavar="DIR", panel=OUTPUT)


@declares
class ModelsOptions:
    """The arguments of `capeval.models`.

    Parameters
    ----------
    name : Show every field of one model: its name or its hub id.
    """

    name: str | None = option(None, positional=True, metavar="NAME")

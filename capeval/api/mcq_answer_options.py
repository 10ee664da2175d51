"""The options of `capeval mcq answer`."""

from collections.abc import Collection
from dataclasses import KW_ONLY

from capeval.api import FilePath
from capeval.captioners.options import FramesOptions
from capeval.options import FRAMES, INPUTS, MODEL, declares, option


@declares
class AnswerOptions(FramesOptions):
    """Which questions a model answers, and with which frames: see `capeval.mcq_answer`.

    Parameters
    ----------
    model : As for `capeval generate`.
    base_url : An OpenAI-compatible server.
    questions : TUNA-MCQ, TOMATO or Video-MME as published, or your own as JSON lines.
    where : Only those with a tag: task=count.
    only : Only these questions.
    limit : Only the first N questions.
    videos : Their folder. By default videos/ in or next to the questions, else their folder.
    subtitles : SRT or VTT files, named as the videos.
    run : The run's name. By default MODEL@SETTINGS.
    frames : As for generate. By default the benchmark's: 16 for TOMATO, else the catalogue's.
    shuffle : Show the frames in random order (see --seed).
    single : Show one frame: first, middle, random (see --seed), an index from 0, or column:NAME,
        the questions' own.
    blind : Ask without the video.
    likelihood : Store each option's likelihood (local models).
    batch_size : Questions at a time on a GPU.
    seed : Of random frames and samples.
    shard : Do part I of N; the last to end merges.
    """

    questions: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    _: KW_ONLY
    where: Collection[str] = option((), panel=INPUTS, metavar="TAG=VALUE")
    only: Collection[str] = option((), panel=INPUTS, metavar="ID", commas=True)
    videos: FilePath | None = option(None, panel=INPUTS, metavar="DIR")
    subtitles: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    run: str | None = option(None, panel=INPUTS, metavar="NAME")
    shuffle: bool = option(False, panel=FRAMES)
    single: str | None = option(None, panel=FRAMES, metavar="WHICH")
    blind: bool = option(False, panel=FRAMES)
    likelihood: bool = option(False, panel=MODEL)
    shard: str | None = option(None, panel=INPUTS, metavar="I/N")

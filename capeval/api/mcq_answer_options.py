"""The options of `capeval mcq answer`."""

from collections.abc import Collection
from dataclasses import KW_ONLY
from typing import Literal

from capeval.api import FilePath
from capeval.captioners.options import CaptionerOptions
from capeval.options import FRAMES, INPUTS, MACHINES, declares, option


@declares
class AnswerOptions(CaptionerOptions):
    """Which questions a model answers, and with which frames: see `capeval.mcq_answer`.

    Parameters
    ----------
    questions : TUNA-MCQ, TOMATO or Video-MME as published, or your own as JSON lines.
    where : Only questions with this tag, such as motion_type=count.
    only : Only the questions with these ids.
    limit : Only the first N questions.
    videos : The folder of the videos. By default videos/ in or next to the questions, else their
        folder.
    subtitles : A folder of subtitles (SRT or VTT), named as the videos.
    run : The name of the run. By default MODEL@SETTINGS.
    frames : The frames to take, as for generate. By default the benchmark's: 16 for TOMATO; for
        others the catalogue's, 32 for most.
    shuffle : Show the frames in a random order, drawn with --seed.
    single : Show one frame: first, middle, random (with --seed), an index from 0, or column:NAME
        for an index in the questions' own column.
    blind : Ask without the video.
    symbols : What options are called: letters or numbers.
    likelihood : Also store how likely each option is, for models in this process.
    max_new_tokens : Tokens a reply may have. By default the catalogue's, 1024 for most.
    temperature : Above 0, replies are sampled. By default the catalogue's, 0 for most.
    batch_size : Questions at a time on a device: a number or auto.
    seed : The seed of --shuffle, --single random, and replies that are sampled in this process.
    allow_damaged : Ask about what is left of videos that do not decode cleanly.
    shard : Do part I of N; the last part to finish writes the run.
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
    symbols: Literal["letters", "numbers"] = option("letters", metavar="KIND")
    likelihood: bool = option(False)
    shard: str | None = option(None, panel=MACHINES, metavar="I/N")

"""`capeval mcq answer`: questions in, responses out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY
from pathlib import Path

from capeval.captioners.opening import choose_model
from capeval.captioners.options import FramesOptions
from capeval.captioners.ray_pool import open_model
from capeval.errors import UsageError
from capeval.files.annotations import VideoFolder, is_benchmark, videos_of
from capeval.mcq.answering import Answers, AnswerWork, Asking
from capeval.mcq.question_files import load_questions, question_file
from capeval.mcq.responses import MCQ
from capeval.mcq.tags import benchmark_name, with_tags
from capeval.mcq.view import ReaderFor, SharedReader, SubtitleFiles, VideoView, recent_reads
from capeval.options import (
    FRAMES,
    INPUTS,
    MODEL,
    FilePath,
    command,
    declares,
    option,
)
from capeval.runs.engine import functions, select
from capeval.runs.folder import RunFolder, Shard
from capeval.runs.sources import run_name, tested_model_warnings
from capeval.schema import Question
from capeval.text import counted, listed
from capeval.video import FrameReader, Policy, open_reader


@declares
class AnswerOptions(FramesOptions):
    """The questions, the model and its frames: see `capeval.mcq_answer`.

    Parameters
    ----------
    model : As in `capeval generate`.
    base_url : An OpenAI-compatible server.
    questions : TUNA-MCQ, TOMATO or Video-MME as published, or your own (docs/mcq.md).
    where : Only questions with this tag, such as task=count.
    only : Only these questions.
    limit : Only the first N questions.
    videos : The folder of the videos. By default videos/ in or next to the questions, else the
        questions' own folder.
    subtitles : SRT or VTT files, named like the videos.
    run : The run's name. By default MODEL@SETTINGS.
    frames : As in `capeval generate`. By default 16 for TOMATO, else what `capeval models` shows
        for the model.
    shuffle : Show the frames in random order (see --seed).
    single : Show one frame: first, random (see --seed), or column:NAME, the frame in that field.
    blind : Ask without the video.
    likelihood : Store each option's likelihood (local models).
    batch_size : Questions at a time on a GPU.
    seed : The seed of random frames and of shuffling.
    shard : Do part I of N; the last one merges all.
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


@command("mcq answer", "max_failed", "yes", "dry_run", "as_json", options=AnswerOptions)
@asynccontextmanager
async def open_answering(
    options: AnswerOptions, *, dry_run: bool = False
) -> AsyncIterator[AnswerWork]:
    """Let a video-language model answer multiple-choice questions.

    Responses go to runs/mcq/BENCHMARK/MODEL@SETTINGS, ready for `capeval mcq grade`. Audio is never
    used. Run the same command again to resume and to retry failed calls.
    """
    entry = choose_model(options)
    # All input errors are found before a model is loaded or called.
    asking = _asking(options, entry.frames if entry else "32")
    shard = Shard.read(options.shard) if options.shard else None

    def run_of(model: str) -> RunFolder:
        name = run_name(options.run or asking.folder_name(model))
        return RunFolder(Path(options.runs) / MCQ / asking.benchmark / name)

    # Where only the server knows the model, a dry run needs the server.
    named = run_of(entry.name) if entry and dry_run else None
    async with open_model(options, entry, dry_run=named) as opened:
        captioner = opened.captioner
        if options.likelihood and not getattr(captioner, "scores_continuations", False):
            raise UsageError(
                f"--likelihood is for models in this process; {captioner.name} returns none"
            )
        run, tags = run_of(captioner.name), (one.tags for one in asking.chosen)
        for line in tested_model_warnings(run.name, "questions", tags, [captioner.name]):
            options.on_notice(line)
        yield AnswerWork(run, opened, asking, shard=shard)


mcq_answer_async, mcq_answer = functions("mcq_answer", open_answering, AnswerOptions, Answers)


def _asking(options: AnswerOptions, default: str) -> Asking:
    if options.questions is None:
        raise UsageError("name the questions with --questions")
    path = str(options.questions)
    questions = load_questions(path, options.on_notice)
    among = with_tags(questions, tuple(options.where)) if options.where else questions
    chosen = select(
        among,
        lambda question: question.id,
        only=tuple(options.only),
        limit=options.limit,
        missing="no question has the id",
    )
    own = options.frames
    given = None if own is None or isinstance(own, str | int) else own
    view = VideoView(
        frames=None if own is None else given.policy if given is not None else str(own),
        default=default,
        order="shuffled" if options.shuffle else "ordered",
        single=options.single,
        blind=options.blind,
        seed=options.seed,
    )
    videos = None
    if not options.blind:
        videos = Path(options.videos) if options.videos else default_question_videos(path)
    if videos is not None:
        VideoFolder(videos)
    return Asking(
        questions=questions,
        chosen=chosen,
        path=path,
        videos=videos,
        view=view,
        reader_for=None if options.blind else _readers(options, view, chosen, given),
        decoder="none" if options.blind else given.decoder if given else options.decoder,
        likelihood=options.likelihood,
        subtitles=_subtitles(options, chosen),
    )


def default_question_videos(path: str) -> Path:
    """Return the default folder of the questions' videos; downloads TUNA's."""
    file = question_file(path)
    if is_benchmark(file.parent.parent):
        return videos_of(file.parent.parent)
    folder = file if file.is_dir() else file.parent
    # TOMATO's repository has its videos beside the folder of the questions.
    for found in (folder / "videos", folder.parent / "videos"):
        if found.is_dir():
            return found
    return folder


def _readers(
    options: AnswerOptions, view: VideoView, chosen: tuple[Question, ...], given: FrameReader | None
) -> ReaderFor:
    # Questions on one video follow each other, but each reader may be at another video.
    recent = recent_reads()
    named = view.single_frame if view.single else view.policy_name
    taken: dict[str, str | Policy] = {question.id: named(question) for question in chosen}
    readers = {
        policy: SharedReader(given or open_reader(policy, options.decoder), recent)
        for policy in {*taken.values()}
    }
    return lambda question: readers[taken[question.id]]


def _subtitles(options: AnswerOptions, chosen: tuple[Question, ...]) -> SubtitleFiles | None:
    if options.subtitles is None:
        return None
    if options.blind:
        raise UsageError("--blind shows no frames, so it excludes --subtitles")
    without = sorted({q.benchmark for q in chosen} & {"tuna", "tomato"})
    if without:
        raise UsageError(
            f"--subtitles: questions of {listed(map(benchmark_name, without))} are asked without "
            "subtitles; omit the option"
        )
    files = SubtitleFiles(Path(options.subtitles))
    videos = list(dict.fromkeys(question.video for question in chosen))
    # All are read now, so that a damaged file stops nothing half-way.
    lacking = [video for video in videos if not files.of(video)]
    if len(lacking) == len(videos):
        raise UsageError(
            f"--subtitles: {files.path} has none for {counted(len(videos), 'video')}, "
            f"such as {videos[0]}"
        )
    if lacking:
        options.on_notice(
            f"{counted(len(lacking), 'video')} of {len(videos):,} without subtitles: their prompt "
            "does not mention subtitles"
        )
    return files

"""The options of `capeval mcq grade`, `import` and `export`."""

from collections.abc import Collection
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Literal

from capeval.api import FilePath, Notices
from capeval.api.run_options import on_notice_option, out_option, runs_option, seed_option
from capeval.options import INPUTS, JUDGE, LIMITS, declares, option, python_only, required

if TYPE_CHECKING:
    from capeval.llm.types import ChatClient
    from capeval.runs.engine import Progress


@declares
class GradeOptions:
    """The arguments of `capeval.mcq_grade`.

    Parameters
    ----------
    responses : A run of `capeval mcq answer`; a responses.jsonl; a filled template of Video-MME;
        results of TOMATO's code. The grades of a run go to its folder.
    questions : What was asked, to count questions without a response.
    where : Only questions with this tag, such as motion_type=count. Then grades.json is not
        written into the run's folder.
    blind_run : A run, or responses, of the same model without videos, as a baseline.
    model : The model's name. By default as the responses have it.
    cap_run : A judged run of the same model's captions, whose F1 is shown beside TUNA-MCQ.
    select : How replies become answers: exact, exact+random, exact+last, exact+llm,
        likelihood-symbol, tomato and others, or all of them side by side. By default exact.
    convention : Grade as a benchmark's own code does.
    by : Tags to group questions by. By default those of the benchmark, or all tags of own
        questions.
    per_token : Divide likelihoods by the number of tokens.
    llm : A chat model that reads replies, for exact+llm and tomato.
    base_url : An OpenAI-compatible endpoint of that model. By default OPENAI_BASE_URL.
    max_concurrency : Calls at a time.
    timeout : Seconds for one call.
    max_cost : Stop calling after this many US dollars.
    api_key : Of the endpoint. By default OPENAI_API_KEY.
    cache : SQLite file of replies. By default in the user's cache folder.
    client : Replaces the network, for tests and recordings.
    progress : Receives the status after every reply that the chat model reads.
    resamples : Bootstrap resamples of videos. By default 10,000.
    """

    responses: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    questions: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    where: Collection[str] = option((), panel=INPUTS, metavar="TAG=VALUE")
    blind_run: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    model: str | None = option(None, metavar="NAME")
    cap_run: FilePath | None = option(None, panel=INPUTS, metavar="RUN")
    select: str | None = option(None, metavar="NAME")
    convention: Literal["tuna", "tomato", "video-mme"] | None = python_only(None)
    by: Collection[str] = option((), metavar="TAG", commas=True)
    per_token: bool = option(False)
    llm: str | None = option(None, panel=JUDGE, metavar="NAME")
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    max_concurrency: int = option(64, panel=LIMITS, metavar="N", min=1, max=4096)
    timeout: float = option(120.0, panel=LIMITS, metavar="SECONDS", min=0.1, max=86_400)
    max_cost: float | None = option(None, panel=LIMITS, metavar="DOLLARS", min=0)
    api_key: str | None = python_only(None, shown=False)
    cache: FilePath | None = python_only(None)
    client: "ChatClient | None" = python_only(None, method="complete")
    progress: "Progress | None" = python_only(None, method="update", shown=False)
    resamples: int | None = option(None, metavar="N", min=99)
    seed: int = seed_option()
    runs: FilePath = runs_option()
    out: FilePath | None = out_option()
    on_notice: Notices = on_notice_option()


@declares
class ImportOptions:
    """The arguments of `capeval.mcq_import`.

    Parameters
    ----------
    files : Results of TOMATO's code (files or the folder of results), or a filled template of
        Video-MME.
    questions : The benchmark's questions, for the videos and tags that results of TOMATO's code do
        not have.
    out : The responses.jsonl to write.
    force : Replace a file that has other responses.
    """

    files: Collection[FilePath] = required(positional=True, metavar="PATH")
    _: KW_ONLY
    out: FilePath = required("The responses.jsonl to write.", metavar="FILE")
    questions: FilePath | None = option(None, panel=INPUTS, metavar="PATH")
    force: bool = option(False)
    on_notice: Notices = on_notice_option()


@declares
class ExportOptions:
    """The arguments of `capeval.mcq_export`.

    Parameters
    ----------
    responses : A run of `capeval mcq answer`, or a responses.jsonl.
    to : The layout: video-mme is the filled template for submission, tomato the folder of results.
    out : The file to write for video-mme, or the folder of results for tomato.
    model : The name of the model, which the names of TOMATO's files have. By default as the
        responses have it.
    force : Replace files that have other contents.
    """

    responses: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    to: Literal["tomato", "video-mme"] = required(metavar="LAYOUT")
    out: FilePath = required(metavar="PATH")
    model: str | None = option(None, metavar="NAME")
    runs: FilePath = runs_option()
    force: bool = option(False)
    on_notice: Notices = on_notice_option()

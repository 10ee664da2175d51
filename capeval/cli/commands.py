"""The table of commands: the modules of the others are not imported when one is called."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from capeval.cli.defaults import set_defaults
from capeval.cli.running import typed

COMPLETING = "_CAPEVAL_COMPLETE"
"""The variable by which a shell asks for completions."""

_HEADINGS = {
    "Evaluate": {
        "eval": "Generate, judge, score and report, in one command.",
        "generate": "Caption videos with a video-language model.",
        "judge": "Judge captions event by event and score them: precision, recall and F1.",
        "report": "Write one HTML file that shows what a model gets wrong, and why.",
        "compare": "Compare judged runs over the videos scored in all of them: is B better than A?",
        "leaderboard": "Rank judged runs by overall F1, or graded runs by accuracy.",
    },
    "Trust": {
        "check": "Check a set of annotations: every problem, what may be a mistake, and "
        "statistics.",
        "probe": "Check how far a judge can be trusted, without human labels.",
        "calibrate": "Correct a judge's scores with labels of some captions: what would the raters "
        "give?",
        "correlate": "Correlate metrics with human ratings: does the judge rank captions as humans "
        "do?",
        "rate": "Have humans rate captions without knowing who wrote them.",
    },
    "Questions": {
        "mcq": "Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    },
    "Make a benchmark": {
        "annotate": "Annotate videos: filter, draft, review, agree, merge.",
        "mcq construct": "Construct questions from annotations: draft, check, filter, review.",
    },
    "Look closer": {
        "score": "Score stored verdicts again, without any model.",
        "inspect": "Show why one video has its score: its caption, events, verdicts and repairs.",
        "plot": "Draw figures for a paper: SVG, PDF or PNG; separate the names of figures by "
        "commas.",
        "metrics": "Compute caption metrics, and write each caption's values to metrics.jsonl.",
        "models": "List the models that `capeval generate` knows.",
        "frames": "Show which frames of a video a model would see.",
        "runs": "List all runs with their judges, scores and sizes.",
        "cache": "Show where the cache of models' replies is and what it contains.",
    },
}
"""By heading, each command with its line in `capeval --help`."""

_GROUPS = {"mcq construct": "Make questions: draft, check, filter, review."}
"""The groups that the list of all commands does not have under their own names."""

_PLACES = {
    "generate": "capeval.captioners.generate:generate_command",
    "judge": "capeval.judging.judge:judge_command",
    "score": "capeval.scoring.score:score_command",
    "mcq answer": "capeval.mcq.answer:answer_command",
    "mcq grade": "capeval.mcq.grade:grade_command",
    "mcq temporal": "capeval.mcq.temporal:mcq_temporal",
    "models": "capeval.captioners.catalogue:models_command",
    "frames": "capeval.captioners.sample_frames:frames_command",
}
"""Where each command is."""

_OLD_MODULES = {
    "annotate": ("annotate",),
    "compare": ("compare", "leaderboard"),
    "eval": ("eval",),
    "judge": ("probe",),
    "mcq": ("mcq",),
    "metrics": ("metrics",),
    "rate": ("correlate", "rate"),
    "report": ("inspect", "plot", "report"),
    "resources": ("cache", "check", "runs"),
    "score": ("calibrate",),
}
_OLD = {command: name for name, commands in _OLD_MODULES.items() for command in commands}


class Commands(TyperGroup):
    """A group whose commands are imported when they are looked up, but not to list them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Imported()

    def format_help(self, *given: Any) -> None:
        """Print the help, with the commands' lines from the table."""
        imported = self.commands
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=heading)
            for heading, commands in _HEADINGS.items()
            for name, summary in commands.items()
        }
        try:
            super().format_help(*given)
        finally:
            self.commands = imported


class _Imported(Mapping[str, Any]):
    """The commands by name, each imported at its first use."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in iter(self):
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = made = _made(name)
            # While it completes, a shell would show a complaint in the middle of the line.
            if COMPLETING not in os.environ:
                set_defaults(
                    _leaves({name: made}), lambda: _leaves({one: _made(one) for one in self})
                )
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return (one for names in _HEADINGS.values() for one in names if " " not in one)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _made(name: str) -> Any:
    """Return a command or a group of commands, imported."""
    around = typer.Typer(add_completion=False, rich_markup_mode="rich")
    around.callback()(lambda: None)
    if name in _OLD:
        made = getattr(import_module(f"capeval.cli.{_OLD[name]}_command"), name)
        if isinstance(made, typer.Typer):
            around.add_typer(made, name=name)
        else:
            around.command(name)(made)
        _add(around, name, top=made)
    else:
        _add(around, name)
    group: Any = get_command(around)
    return group.commands[name]


def _add(around: typer.Typer, name: str, top: Any = None) -> None:
    """Add a command to a group, or the group of that name with its commands."""
    word = name.rpartition(" ")[2]
    if name in _PLACES:
        module, _, attribute = _PLACES[name].partition(":")
        around.command(word)(typed(getattr(import_module(module), attribute).command))
        return
    inner = [one for one in _PLACES if one.startswith(f"{name} ")]
    words = dict.fromkeys(one[len(name) + 1 :].split(" ")[0] for one in inner)
    if not words:
        return
    summary = _GROUPS.get(name) or next(of[name] for of in _HEADINGS.values() if name in of)
    group = top or typer.Typer(help=summary, no_args_is_help=True)
    for one in words:
        _add(group, f"{name} {one}")
    if top is None:
        around.add_typer(group, name=word)


def _leaves(commands: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """Return commands, with those of each group in its place, by what is typed."""
    found: dict[str, Any] = {}
    for name, one in commands.items():
        inner = getattr(one, "commands", None)
        found |= _leaves(inner, f"{group}{name} ") if inner else {group + name: one}
    return found

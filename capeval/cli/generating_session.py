"""One `capeval generate`: choose, show, estimate, caption, and say what is left."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import typer

from capeval.captioners.estimate import GenerationEstimate, estimate_generation
from capeval.captioners.images import ImageKind
from capeval.captioners.merging import Merge, merge_parts
from capeval.captioners.plan import (
    Generation,
    GenerationPlan,
    Wanted,
    default_run,
    default_videos,
    plan_generation,
)
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.run import generate_run
from capeval.captioners.selection import (
    CaptionerChoice,
    OpenCaptioner,
    choose_model,
    open_captioner,
)
from capeval.cli.options import Allowance, indexes
from capeval.cli.progress import CaptioningProgress
from capeval.cli.session import DONE, INCOMPLETE, RUNS, Session, ask, expected_cost, spent
from capeval.errors import UsageError
from capeval.files.jsonl import dumps
from capeval.files.videos import VideoFolder
from capeval.reporting.numbers import thousands
from capeval.runs.folder import RunFolder
from capeval.runs.shards import Shard
from capeval.runs.sources import SAMPLE, annotations_of, run_name
from capeval.video import open_reader


@dataclass(frozen=True)
class GenerateArguments:
    """What was typed."""

    model: str | None
    base_url: str | None
    prompt: str | None
    max_new_tokens: int | None
    batch_size: str
    device: str | None
    annotations: str | None
    videos: str | None
    run: str | None
    only: tuple[str, ...]
    limit: int | None
    frames: str | None
    decoder: str
    shuffle: bool
    seed: int
    images: str | None
    jpeg_quality: int
    max_side: int | None
    shard: str | None
    merge: bool
    max_concurrency: int
    timeout: float
    max_cost: float | None
    max_ungenerated: str
    yes: bool
    dry_run: bool
    as_json: bool
    quiet: bool


def run_session(arguments: GenerateArguments) -> int:
    """Do what was typed and return the exit code.

    Raises
    ------
    CapevalError
        The work could not begin or had to stop; its exit code says which.
    """
    return _Session(arguments).until_stopped()


class _Session(Session):
    def __init__(self, arguments: GenerateArguments) -> None:
        super().__init__(as_json=arguments.as_json, quiet=arguments.quiet)
        self._a = arguments

    async def run(self) -> int:
        a = self._a
        allowance = Allowance.read(a.max_ungenerated, "--max-ungenerated")
        for option, value in (("--run", a.run), ("--frames", a.frames)):
            if value is not None and not value.strip():
                raise UsageError(f"{option} is empty; leave it off or give it a value")
        if a.merge:
            return self._end(self._merge(), None, None, allowance)
        choice = self._choice()
        entry = choose_model(choice)
        # Everything that can be wrong is found before a model is loaded or called.
        wanted = self._wanted(entry.prompt if entry else None)
        if entry:
            open_reader(a.frames or entry.frames, a.decoder, shuffle=self._shuffle)
        async with open_captioner(choice, on_notice=self.notice) as opened:
            reader = open_reader(a.frames or opened.entry.frames, a.decoder, shuffle=self._shuffle)
            run = RunFolder(RUNS / run_name(a.run or default_run(opened.captioner.name)))
            plan = plan_generation(run, wanted, opened.captioner, reader)
            self._introduce(plan, opened)
            expected = await estimate_generation(plan.work, reader, opened)
            if a.dry_run:
                self._show_estimate(plan, expected, opened)
                return DONE
            ask(expected.cost, expected.usage.calls, yes=a.yes, max_cost=a.max_cost)
            with CaptioningProgress(opened.meter, quiet=a.quiet) as progress:
                self.progress = progress
                generation, merge = await generate_run(
                    run, wanted, opened.captioner, reader, progress=progress
                )
            return self._end(generation, merge, opened, allowance)

    @property
    def _shuffle(self) -> int | None:
        return self._a.seed if self._a.shuffle else None

    def _choice(self) -> CaptionerChoice:
        a = self._a
        batch: int | Literal["auto"] = "auto"
        if a.batch_size != "auto":
            if not a.batch_size.isdecimal() or not 1 <= int(a.batch_size) <= 4096:
                raise UsageError(f"--batch-size: {a.batch_size!r} must be a number or auto")
            batch = int(a.batch_size)
        return CaptionerChoice(
            model=a.model,
            base_url=a.base_url,
            max_new_tokens=a.max_new_tokens,
            batch_size=batch,
            device=a.device,
            # ImageForm says so where it is none of them.
            images=cast("ImageKind | None", a.images),
            jpeg_quality=a.jpeg_quality,
            max_side=a.max_side,
            max_concurrency=a.max_concurrency,
            timeout=a.timeout,
            max_cost=a.max_cost,
        )

    def _wanted(self, prompt: str | None) -> Wanted:
        a = self._a
        path = a.annotations or SAMPLE
        if a.annotations is None:
            self.notice("No --annotations are given: captioning the bundled sample.")
        file = Path(a.prompt) if a.prompt else None
        wanted = Wanted(
            annotations=annotations_of(path),
            annotations_path=path,
            videos=Path(a.videos) if a.videos else default_videos(path),
            prompts=load_caption_prompts(file, prompt or "tuna-cap-v1"),
            only=tuple(indexes(list(a.only))),
            limit=a.limit,
            shard=Shard.read(a.shard) if a.shard else None,
        )
        wanted.chosen()
        VideoFolder(wanted.videos)
        return wanted

    def _merge(self) -> Generation:
        a = self._a
        name = a.run or (default_run(a.model) if a.model else None)
        if name is None:
            raise UsageError("name the run whose shards are to be merged with --run")
        run = RunFolder(RUNS / run_name(name))
        if not run.path.is_dir():
            raise UsageError(f"{run.path} does not exist")
        stored = run.read_manifest().get("annotations", {}).get("path")
        path = a.annotations or stored
        if not isinstance(path, str):
            raise UsageError(f"{run.path}: name its annotations with --annotations")
        return merge_parts(run, annotations_of(path), path)

    def _introduce(self, plan: GenerationPlan, opened: OpenCaptioner) -> None:
        where = f" at {opened.base_url}" if opened.base_url else ""
        settings = plan.settings
        self.print(
            f"Captioner: {opened.captioner.name}{where}, frames {settings['frames']} by "
            f"{settings['decoder']}, prompt {settings['prompt']['source']}"
        )
        if plan.again:
            self.notice(
                f"{plan.run.name}: {thousands(plan.again)} captions answer another prompt, are of "
                "another video file, or are empty, and are written again"
            )
        if plan.missing:
            index, reason = next(iter(plan.missing.items()))
            more = f", and {thousands(len(plan.missing) - 1)} more" if len(plan.missing) > 1 else ""
            self.notice(f"{plan.run.name}: no video for {index}{more}: {reason}")

    def _show_estimate(
        self, plan: GenerationPlan, expected: GenerationEstimate, opened: OpenCaptioner
    ) -> None:
        usage = expected.usage
        if self._a.as_json:
            found: Mapping[str, Any] = {
                "run": plan.run.name,
                "asked": plan.asked,
                "done": plan.asked - len(plan.work) - len(plan.missing),
                "to_caption": len(plan.work),
                "missing": dict(plan.missing),
                "calls": len(plan.work) if opened.base_url else 0,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": expected.cost,
                "settings": plan.settings,
            }
            typer.echo(dumps(found, indent=1))
            return
        self.print(f"{plan.run.name}: {thousands(len(plan.work))} videos to caption")
        if opened.base_url is None:
            self.print("Nothing was run")
            return
        if usage.calls:
            self.print(
                f"  about {expected.frames} frames each, {thousands(usage.input_tokens)} tokens "
                f"in, {thousands(usage.output_tokens)} out"
            )
        cost = expected_cost(expected.cost, opened.priced)
        if expected.cost is not None:
            cost += ", less what the cache holds"
        self.print(f"Expected: {thousands(len(plan.work))} calls, {cost}; nothing was called")

    def _end(
        self,
        generation: Generation,
        merge: Merge | None,
        opened: OpenCaptioner | None,
        allowance: Allowance,
    ) -> int:
        self._show(generation, merge, opened)
        complete = not generation.stopped and allowance.allows(
            len(generation.ungenerated), generation.asked
        )
        return DONE if complete else INCOMPLETE

    def _show(
        self, generation: Generation, merge: Merge | None, opened: OpenCaptioner | None
    ) -> None:
        if self._a.as_json:
            typer.echo(dumps(_summary(generation, merge, opened), indent=1))
        run, left = generation.run, generation.ungenerated
        shard = f" (shard {generation.shard})" if generation.shard else ""
        captioned = generation.asked - len(left)
        new = f", {thousands(generation.new)} of them now" if generation.new < captioned else ""
        of = f"{thousands(captioned)}/{thousands(generation.asked)}"
        self.print(f"{run.name}{shard}: captioned {of}{new}")
        for index, reason in list(left.items())[:5]:
            self.print(f"{run.name}: {index} is ungenerated: {reason}")
        if len(left) > 5:
            self.print(f"{run.name}: {thousands(len(left) - 5)} more are ungenerated")
        for warning, count in generation.warnings.items():
            self.print(f"{run.name}: {thousands(count)} captions: {warning}")
        if len(generation.revisions) > 1:
            self.print(f"{run.name}: written by {' and '.join(generation.revisions[:5])}")
        if generation.stopped:
            sys.stderr.write(f"capeval: {generation.stopped}\n")
        if left and self._a.merge:
            self.print("Generate what is missing without --merge, and --run with this name.")
        elif left:
            self.print("Run the same command again to try the ungenerated once more.")
        if opened is not None:
            self._spent(generation, opened)
        if merge and merge.waiting_for:
            others = ", ".join(map(str, merge.waiting_for[:8]))
            self.print(
                f"Not merged yet: {others} {'is' if len(merge.waiting_for) == 1 else 'are'} not "
                f"done here. The last shard to end merges all; or: capeval generate --merge "
                f"--run {run.name}"
            )
        elif generation.captions:
            self.print(f"{run.captions}")
            self.print(f"Judge them: capeval judge {run.name}")

    def _spent(self, generation: Generation, opened: OpenCaptioner) -> None:
        meter, usage = opened.meter, generation.usage
        if opened.base_url is None:
            if usage.output_tokens:
                self.print(
                    f"{thousands(usage.input_tokens)} tokens in, "
                    f"{thousands(usage.output_tokens)} out"
                )
            return
        if told := spent(meter, opened.priced):
            self.print(told)


def _summary(
    generation: Generation, merge: Merge | None, opened: OpenCaptioner | None
) -> dict[str, Any]:
    return {
        "run": generation.run.name,
        "captions": str(generation.run.captions) if generation.run.exists() else None,
        "shard": str(generation.shard) if generation.shard else None,
        "annotated": generation.annotated,
        "asked": generation.asked,
        "captioned": generation.asked - len(generation.ungenerated),
        "new": generation.new,
        "ungenerated": dict(generation.ungenerated),
        "warnings": generation.warnings,
        "revisions": generation.revisions,
        "usage": generation.usage.model_dump(),
        "cost": opened.meter.spent if opened and opened.base_url else None,
        "waiting_for": [str(shard) for shard in merge.waiting_for] if merge else [],
        "stopped": str(generation.stopped) if generation.stopped else None,
    }

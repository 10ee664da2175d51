"""The engine for resumable work: what it keeps, what it does again, and what it leaves behind."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.errors import BudgetReached, CapevalError, EndpointDown, EndpointRefused, RunLocked
from capeval.files.jsonl import whole_lines, write_jsonl
from capeval.runs.concurrency import work_through
from capeval.runs.engine import (
    Finished,
    Labels,
    Locks,
    Plan,
    Progress,
    ResumableTask,
    Spent,
    Status,
    execute,
)
from capeval.runs.folder import RunFolder
from capeval.schema import Usage


@dataclass(frozen=True)
class Squared:
    index: str
    reason: str | None = None
    value: int | None = None


class Squaring(ResumableTask[Plan[Squared], Squared]):
    """Squares numbers; `fail` says what happens instead at a number."""

    labels = Labels("squaring", "number", "squared", "unsquared")

    def __init__(
        self,
        run: RunFolder,
        numbers: Sequence[int],
        fail: Mapping[int, str | BaseException] | None = None,
    ) -> None:
        self.run, self.numbers, self.fail = run, numbers, fail or {}
        self.worked: list[int] = []
        self.file = run.path / "squares.jsonl"

    def locked(self) -> AbstractContextManager[None]:
        return self.run.locked()

    def plan(self) -> Plan[Squared]:
        stored = {line["index"]: Squared(**line) for line in whole_lines(self.file)}
        kept = {index: one for index, one in stored.items() if one.reason is None}
        todo = [number for number in self.numbers if str(number) not in kept]
        return Plan(self.run.name, kept, todo)

    def create(self, plan: Plan[Squared]) -> None:
        self.run.path.mkdir(exist_ok=True)
        self.run.manifest.write_text("{}")

    async def perform(self, plan: Plan[Squared], record: Callable[[Squared], None]) -> None:
        for number in plan.todo:
            failure = self.fail.get(number)
            if isinstance(failure, BaseException):
                raise failure
            self.worked.append(number)
            record(Squared(str(number), failure, None if failure else number * number))

    def line(self, outcome: Squared) -> tuple[Path, Mapping[str, Any]]:
        return self.file, vars(outcome)

    def finish(self, plan: Plan[Squared], done: Mapping[str, Squared]) -> None:
        write_jsonl(self.file, (vars(done[str(n)]) for n in self.numbers if str(n) in done))

    def spent(self) -> Spent:
        return Spent(Usage(output_tokens=len(self.worked)))


async def done(work: Squaring, progress: Progress | None = None) -> Finished[Squared]:
    with Locks() as locks:
        plan, lock = locks.begin(work)
        with lock:
            return await execute(work, plan, progress)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "mine")


def values(run: RunFolder) -> list[int | None]:
    lines = (run.path / "squares.jsonl").read_text().splitlines()
    return [json.loads(line)["value"] for line in lines]


@pytest.mark.parametrize("failure", [BudgetReached("spent"), EndpointDown("gone")])
async def test_a_stop_keeps_the_results_so_far(run: RunFolder, failure: CapevalError) -> None:
    finished = await done(Squaring(run, [1, 2, 3], {3: failure}))
    assert finished.stopped is failure
    assert (set(finished.done), values(run)) == ({"1", "2"}, [1, 4])
    with pytest.raises(EndpointRefused):
        await done(Squaring(run, [1, 2, 3, 4], {4: EndpointRefused("bad key")}))
    assert values(run) == [1, 4, 9]


@pytest.mark.parametrize(
    "failure",
    [EndpointRefused("bad key"), EndpointDown("gone"), BudgetReached("spent"), KeyError("bug")],
)
async def test_a_start_without_an_outcome_changes_nothing(
    run: RunFolder, failure: Exception
) -> None:
    async def start(*numbers: int) -> None:
        with suppress(EndpointRefused, KeyError):
            work = Squaring(run, numbers, {numbers[-1]: failure})
            assert (await done(work)).stopped is failure

    await start(1)
    assert not run.path.exists()
    await done(Squaring(run, [1]))
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    await start(1, 2)
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


async def test_after_a_stop_calls_under_way_finish_and_none_is_begun() -> None:
    begun: list[int] = []
    recorded: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 0:
            raise BudgetReached("spent")

    with pytest.raises(BudgetReached):
        await work_through(
            range(9), work, concurrency=2, record=lambda number, _: recorded.append(number)
        )
    assert (begun, recorded) == ([0, 1], [1])


async def test_progress_and_a_rerun_of_failures(run: RunFolder) -> None:
    class Shown:
        def __init__(self) -> None:
            self.statuses: list[Status] = []

        def update(self, status: Status) -> None:
            self.statuses.append(status)

    await done(Squaring(run, [7]))
    shown = Shown()
    await done(Squaring(run, [8, 7, 9], {9: "unlucky"}), shown)
    assert [(s.kept, s.done, s.total, s.failed, s.spent.tokens) for s in shown.statuses] == [
        (1, 0, 2, 0, 0),
        (1, 1, 2, 0, 1),
        (1, 2, 2, 1, 2),
    ]
    assert [s.last.index if s.last else None for s in shown.statuses] == [None, "8", "9"]
    assert shown.statuses[-1].seconds_left == 0
    again = Squaring(run, [8, 7, 9])
    assert set((await done(again)).new) == {"9"}
    assert (again.worked, values(run)) == ([9], [64, 49, 81])


def test_a_lock_is_held_until_its_run_is_finished_or_cannot_be_planned(run: RunFolder) -> None:
    one, other = Squaring(run, [1]), Squaring(RunFolder(run.path.with_name("other")), [2])
    with Locks() as locks:
        _, lock = locks.begin(one)
        locks.begin(other)
        for task in (one, other):
            with pytest.raises(RunLocked), Locks() as others:
                others.begin(task)
        with Locks(held=False) as dry:  # needs no lock
            dry.begin(one)
        lock.close()
        with Locks() as others:
            others.begin(one)
        run.path.mkdir()
        one.file.write_text("[]\n{}\n")
        with pytest.raises(TypeError):
            locks.begin(one)
        with one.locked():
            pass
    with other.locked():
        pass


@settings(max_examples=40, deadline=None)
@given(stops=st.lists(st.integers(0, 6), max_size=5), torn=st.booleans())
async def test_any_sequence_of_stops_ends_in_the_same_file(
    stops: list[int], torn: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = RunFolder(tmp_path_factory.mktemp("runs") / "mine")
    worked: list[int] = []
    for stop in stops:
        work = Squaring(run, range(7), {stop: RuntimeError("killed")})
        try:
            await done(work)
        except RuntimeError:
            if torn and work.file.exists():
                with work.file.open("ab") as file:
                    file.write(b'{"index": "6", "rea')
        worked += work.worked
    last = Squaring(run, range(7))
    await done(last)
    assert values(run) == [n * n for n in range(7)]
    assert sorted(worked + last.worked) == list(range(7)), "nothing is done twice"

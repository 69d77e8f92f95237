"""A cluster that is made up, and a class that is graded there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpututor.classroom.batch import Job
from gpututor.classroom.executors.cluster import ClusterExecutor
from gpututor.classroom.executors.machines import Lost, Room
from gpututor.classroom.executors.nodes import Needed, Said, grade_some
from gpututor.classroom.executors.real_devices import RealDevices
from gpututor.classroom.work import Work
from gpututor.grading.client import IsolationName
from gpututor.grading.journal import entries
from gpututor.grading.report import Outcome
from tests.unit.classroom.judges import Bench, job_of

Act = Callable[["Made", str, Sequence[Job]], Said]


class Made:
    """A cluster in this process: each task is done when it is waited for."""

    def __init__(self, rooms: Mapping[str, Room], bench: Bench | None = None, act: Act | None = None) -> None:
        self.living = dict(rooms)
        self.bench = bench or Bench()
        self.unfit: dict[str, str] = {}
        self.chunks: list[tuple[str, list[Job], int]] = []
        self.most_at_once = 0
        self.closed = False
        self.hang = set[str]()
        """Nodes whose tasks never end."""
        self.dropped: list[int] = []
        self._act = act
        self._tasks: deque[tuple[int, Callable[[], Any]]] = deque()
        self._answers: dict[int, Callable[[], Any]] = {}
        self._numbers = 0

    def open(self) -> None: ...

    def nodes(self) -> Mapping[str, Room]:
        return dict(self.living)

    def look(self, node: str, needed: Needed) -> int:
        assert Path(needed.job.journal, needed.sign).exists()
        return self._start(node, lambda: self.unfit.get(node, ""))

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> int:
        self.chunks.append((node, list(jobs), gpus))
        return self._start(node, lambda: self._act(self, node, jobs) if self._act else self.graded(jobs))

    def graded(self, jobs: Sequence[Job]) -> Said:
        return grade_some(jobs, RealDevices((), dict), self.bench)

    def over(self, tasks: Sequence[int], timeout_s: float) -> Sequence[int]:
        self.most_at_once = max(self.most_at_once, len(tasks))
        if not self._tasks:
            return []
        task, do = self._tasks.popleft()
        try:
            said = do()
            self._answers[task] = lambda: said
        except Lost as lost:
            self._answers[task] = _raising(lost)
        return [task]

    def answer(self, task: int) -> Any:
        return self._answers.pop(task)()

    def drop(self, task: int) -> None:
        self.dropped.append(task)
        self._tasks = deque(each for each in self._tasks if each[0] != task)

    def close(self) -> None:
        self.closed = True

    def _start(self, node: str, do: Callable[[], Any]) -> int:
        self._numbers += 1
        if node not in self.hang:
            self._tasks.append((self._numbers, do))
        return self._numbers


def _raising(error: Exception) -> Callable[[], Any]:
    def do() -> Any:
        raise error

    return do


TWO = {"a": Room("node a", 1, 0), "b": Room("node b", 1, 0)}


def jobs_in(folder: Path, count: int) -> list[Job]:
    (folder / "journal").mkdir(exist_ok=True)
    return [job_of(folder, f"l/{number % 2}", str(number)) for number in range(count)]


def run(jobs: Sequence[Job], cluster: Made, judges: int | None = None) -> tuple[Work, list[str]]:
    work, told = Work(jobs), list[str]()
    try:
        ClusterExecutor(cluster, "process", judges, told.append).run(work)
    finally:
        assert cluster.closed
    return work, told


def check_all_graded(folder: Path, work: Work, count: int) -> None:
    assert work.progress.outcomes == {Outcome.PASSED: count}
    assert work.troubles == []
    assert len(list(entries(folder / "journal"))) == count
    assert not list((folder / "journal").glob(".*"))

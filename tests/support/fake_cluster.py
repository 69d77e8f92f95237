"""An imitation of a cluster, and a class that is graded there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.executors.ray import (
    ChunkResult,
    Node,
    RayCluster,
    RayExecutor,
    TaskLost,
    grade_in_order,
    probe_node,
)
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import WorkQueue
from gpututor.grading.journal import entries
from gpututor.grading.report import Outcome
from tests.support.fake_judges import Bench, job_of

Act = Callable[["FakeCluster", str, Sequence[Job]], ChunkResult]


class FakeCluster:
    """A `RayCluster` in this process: each task runs when it is waited for."""

    def __init__(self, nodes: Mapping[str, Node], bench: Bench | None = None, act: Act | None = None) -> None:
        self.living = dict(nodes)
        self.bench = bench or Bench()
        self.unfit: dict[str, str] = {}
        self.chunks: list[tuple[str, list[Job], int]] = []
        self.most_at_once = 0
        self.closed = False
        self._act = act
        self._tasks: deque[tuple[int, Callable[[], Any]]] = deque()
        self._results: dict[int, Callable[[], Any]] = {}
        self._numbers = 0

    def open(self) -> None: ...

    def nodes(self) -> Mapping[str, Node]:
        return {node_id: replace(node, refusals={}) for node_id, node in self.living.items()}

    def start(self, function: Callable[..., Any], node_id: str, gpus: int, *arguments: Any) -> int:
        if function is probe_node:
            job, _, _, marker = arguments
            assert Path(job.journal, marker).exists()
            return self._start(lambda: self.unfit.get(node_id, ""))
        jobs, _ = arguments
        self.chunks.append((node_id, list(jobs), gpus))
        return self._start(lambda: self._act(self, node_id, jobs) if self._act else self.graded(jobs))

    def graded(self, jobs: Sequence[Job]) -> ChunkResult:
        return grade_in_order(jobs, RealDevices((), dict), self.bench)

    def wait(self, tasks: Sequence[int], timeout_s: float) -> Sequence[int]:
        self.most_at_once = max(self.most_at_once, len(tasks))
        if not self._tasks:
            return []
        task, do = self._tasks.popleft()
        try:
            result = do()
            self._results[task] = lambda: result
        except TaskLost as lost:
            self._results[task] = _raising(lost)
        return [task]

    def result(self, task: int) -> Any:
        return self._results.pop(task)()

    def close(self) -> None:
        self.closed = True

    def _start(self, do: Callable[[], Any]) -> int:
        self._numbers += 1
        self._tasks.append((self._numbers, do))
        return self._numbers


def _raising(error: Exception) -> Callable[[], Any]:
    def do() -> Any:
        raise error

    return do


TWO = {"a": Node("node a", 1, 0), "b": Node("node b", 1, 0)}


def jobs_in(folder: Path, count: int) -> list[Job]:
    (folder / "journal").mkdir(exist_ok=True)
    return [job_of(folder, f"l/{number % 2}", str(number)) for number in range(count)]


def run(jobs: Sequence[Job], cluster: FakeCluster, judges: int | None = None) -> tuple[WorkQueue, list[str]]:
    work, told = WorkQueue(jobs), list[str]()
    try:
        RayExecutor(cast(RayCluster, cluster), "process", judges, told.append).run(work)
    finally:
        assert cluster.closed
    return work, told


def check_all_graded(folder: Path, work: WorkQueue, count: int) -> None:
    assert work.progress.outcomes == {Outcome.PASSED: count}
    assert work.failures == []
    assert len(list(entries(folder / "journal"))) == count
    assert not list((folder / "journal").glob(".*"))

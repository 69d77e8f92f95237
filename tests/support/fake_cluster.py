"""A fake Ray cluster, and a class that is graded on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.executors.ray import (
    ChunkResult,
    RayCluster,
    RayExecutor,
    RayNode,
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
TWO = {"a": RayNode("node a", 1, 0), "b": RayNode("node b", 1, 0)}


class FakeCluster:
    """A `RayCluster` in this process, which runs a task when the executor waits for it."""

    def __init__(self, nodes: Mapping[str, RayNode], bench: Bench | None = None, act: Act | None = None) -> None:
        self.living = dict(nodes)
        self.bench = bench or Bench()
        self.unfit: dict[str, str] = {}
        self.chunks: list[tuple[str, list[Job], int]] = []
        self.most_at_once = 0
        self.closed = False
        self._act: Act = act or (lambda cluster, node, jobs: cluster.grade(jobs))
        self._tasks: deque[Callable[[], Any]] = deque()

    def open(self) -> None: ...

    def nodes(self) -> Mapping[str, RayNode]:
        return {node_id: replace(node, refusals={}) for node_id, node in self.living.items()}

    def start(self, function: Callable[..., Any], node_id: str, gpus: int, *arguments: Any) -> Callable[[], Any]:
        def task() -> Any:
            return self.unfit.get(node_id, "") if function is probe_node else self._act(self, node_id, arguments[0])

        if function is probe_node:
            job, _, _, marker = arguments
            assert Path(job.journal, marker).exists()
        else:
            self.chunks.append((node_id, list(arguments[0]), gpus))
        self._tasks.append(task)
        return task

    def grade(self, jobs: Sequence[Job]) -> ChunkResult:
        return grade_in_order(jobs, RealDevices((), dict), self.bench)

    def wait(self, tasks: Sequence[Any], timeout_s: float) -> Sequence[Any]:
        self.most_at_once = max(self.most_at_once, len(tasks))
        return [self._tasks.popleft()] if self._tasks else []

    def result(self, task: Callable[[], Any]) -> Any:
        return task()

    def close(self) -> None:
        self.closed = True


def lose(error: str) -> ChunkResult:
    raise TaskLost(error)


def jobs_in(folder: Path, count: int) -> list[Job]:
    (folder / "journal").mkdir(exist_ok=True)
    return [job_of(folder, f"l/{number % 2}", str(number)) for number in range(count)]


def gpu_jobs_in(folder: Path, count: int, gpus: int = 1, exercises: int = 1) -> list[Job]:
    (folder / "journal").mkdir(exist_ok=True)
    jobs = [job_of(folder, f"l/gpu{n % exercises}", f"g{n}", device="cuda H100") for n in range(count)]
    return [replace(job, gpus=gpus) for job in jobs]


def run(jobs: Sequence[Job], cluster: FakeCluster, judges: int | None = None) -> tuple[WorkQueue, list[str]]:
    """Grade the jobs; return the queue and the messages."""
    work, messages = WorkQueue(jobs), list[str]()
    try:
        RayExecutor(cast(RayCluster, cluster), "process", judges, messages.append).run(work)
    finally:
        assert cluster.closed
    return work, messages


def check_all_graded(folder: Path, work: WorkQueue, count: int) -> None:
    assert work.progress.outcomes == {Outcome.PASSED: count}
    assert work.failures == []
    assert len(list(entries(folder / "journal"))) == count
    assert not list((folder / "journal").glob(".*"))

"""Judges that work in parallel, and the queue of jobs for them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import select
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpututor import paths
from gpututor.course.model import Exercise, Lesson
from gpututor.errors import CourseError, GradingError
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Report
from gpututor.processes import exit_status, kill_tree, python_module

EXAMINED_WITHIN_S = 120.0
"""Seconds allowed for an exercise's references on the CPU, in float64, for all nonsense that is tried."""
LESSON_WITHIN_S = 180.0
STOPS_WITHIN_S = 5.0
"""Seconds to wait for a judge that was closed during its work."""


@dataclass(frozen=True)
class Examined:
    """The answer of `gpututor.judge.author_tools audit` for an exercise."""

    checks: tuple[str, ...] = ()
    of_values: frozenset[str] = frozenset()
    """Checks that look only at results."""
    tolerant: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    """Files that time or results are compared with."""
    weak: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    unsteady: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    """Cases whose inputs are the same for every seed."""
    unused: tuple[str, ...] = ()
    """Allowed names that no right solution uses."""
    error: CourseError | None = None

    @classmethod
    def from_json(cls, answer: dict[str, Any]) -> Examined:
        checks, error = answer["checks"], answer["error"]
        return cls(
            checks=tuple(check["name"] for check in checks),
            of_values=frozenset(check["name"] for check in checks if check["of_values"]),
            tolerant=tuple(check["name"] for check in checks if check["tolerant"]),
            baselines=tuple(dict.fromkeys(name for check in checks for name in check["baselines"])),
            weak=tuple(answer["weak"]),
            untried=tuple(answer["untried"]),
            unsteady=tuple(answer["unsteady"]),
            fixed=tuple(answer["fixed"]),
            unused=tuple(answer["unused"]),
            error=CourseError(error["title"], error["advice"]) if error else None,
        )


class JudgePool:
    """A judge that grades, and a process that examines checks; both start on first use."""

    def __init__(self) -> None:
        self._client = GradingClient(workers=QUICKEST)
        self._examiner: subprocess.Popen[bytes] | None = None

    def grade(self, exercise: Exercise, source: str, seed: int, gpu: str | None = None) -> Report:
        """Grade `source` on the virtual GPU, or on the model `gpu`. Raises `GradingError` if the judge breaks."""
        request = GradeRequest(str(exercise.folder), source, f"{exercise.slug}.py", "virtual", gpu, seed=seed)
        for event in self._client.grade(request):
            if isinstance(event, GradingFinished):
                return event.report
        raise GradingError("The grading was cancelled.", "Run `gpututor verify` again.")

    def examine(self, exercise: Exercise) -> Examined:
        """Audit the tolerances of an exercise. Raises `GradingError` if the process ends or takes too long."""
        return Examined.from_json(self._request({"folder": str(exercise.folder)}))

    def run_examples(self, lesson: Lesson) -> list[dict[str, Any]]:
        """Run the examples of a lesson's text. Raises `GradingError` if they do not end."""
        file = lesson.folder / "lesson.md"
        command = [*python_module("gpututor.judge.author_tools"), "examples", str(lesson.gpus), str(file)]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=LESSON_WITHIN_S, check=False, env=_one_thread()
            )
        except subprocess.TimeoutExpired as error:
            title = f"The lesson's examples take over {LESSON_WITHIN_S:.0f} s."
            raise GradingError(title, "Make them smaller.") from error
        if ended.returncode != 0:
            words = ended.stderr.strip().splitlines()[-1:] or [f"exit status {ended.returncode}"]
            raise GradingError(f"The lesson's examples end the process: {words[0]}", "Run them one by one.")
        results: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
        return results

    def close(self) -> None:
        self._client.close()
        self._end_examiner()

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        examiner = self._running_examiner()
        assert examiner.stdin is not None
        assert examiner.stdout is not None
        line, took = b"", "ended the process"
        with contextlib.suppress(OSError, ValueError):  # it is gone
            examiner.stdin.write(json.dumps(request).encode() + b"\n")
            examiner.stdin.flush()
            if select.select([examiner.stdout], [], [], EXAMINED_WITHIN_S)[0]:
                line = examiner.stdout.readline()
            else:
                took = f"took over {EXAMINED_WITHIN_S:.0f} s"
        if not line:
            status = exit_status(examiner.pid)
            self._end_examiner()
            title = f"Examining the checks {took}{'' if status is None else f' (exit status {status})'}."
            advice = f"Make references and inputs smaller; {paths.log_file()} may say more."
            if status is not None:
                advice = "Remove os._exit() and similar calls from checks.py and given.py; they run in this process."
            raise GradingError(title, advice)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _running_examiner(self) -> subprocess.Popen[bytes]:
        if self._examiner is None:
            paths.log_file().parent.mkdir(parents=True, exist_ok=True)
            with paths.log_file().open("ab") as log:
                self._examiner = subprocess.Popen(
                    [*python_module("gpututor.judge.author_tools"), "audit"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_one_thread(),
                    start_new_session=True,
                )
        return self._examiner

    def _end_examiner(self) -> None:
        examiner, self._examiner = self._examiner, None
        if examiner is not None:
            kill_tree(examiner.pid)
            with contextlib.suppress(OSError), examiner:  # which closes its pipes and waits
                pass


def _one_thread() -> dict[str, str]:
    """Return the environment of a process with one thread: judges share the machine's cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


@dataclass(order=True, frozen=True)
class JudgeJob:
    """A piece of work for a judge. It may return further jobs."""

    order: tuple[int, ...]
    """Priority; the queue gives out the lowest first."""
    work: Callable[[JudgePool], Iterable[JudgeJob]] = field(compare=False)


def do_all(jobs: Iterable[JudgeJob], judges: int) -> None:
    """Do `jobs`, and the jobs that they return, in parallel. Raises the exception of a job after the others stopped."""
    waiting: queue.PriorityQueue[tuple[JudgeJob, int]] = queue.PriorityQueue()
    ends: queue.SimpleQueue[list[JudgeJob] | BaseException] = queue.SimpleQueue()
    """Further jobs, or the exception, of each job that ended."""
    pools = [JudgePool() for _ in range(judges)]
    threads = [threading.Thread(target=_serve, args=(pool, waiting, ends), daemon=True) for pool in pools]
    numbers = itertools.count()
    new, left = list(jobs), 0
    try:
        for thread in threads:
            thread.start()
        while new or left:
            for job in new:
                waiting.put((job, next(numbers)))
            left += len(new) - 1
            end = ends.get()
            if isinstance(end, BaseException):
                raise end
            new = end
    finally:
        for pool in pools:
            waiting.put((JudgeJob((), lambda _: ()), next(numbers)))  # before all others
            pool.close()
        for thread in threads:
            if thread.is_alive():
                thread.join(STOPS_WITHIN_S)


def _serve(
    pool: JudgePool,
    waiting: queue.PriorityQueue[tuple[JudgeJob, int]],
    ends: queue.SimpleQueue[list[JudgeJob] | BaseException],
) -> None:
    """Do jobs until one has no order."""
    while (job := waiting.get()[0]).order:
        try:
            ends.put(list(job.work(pool)))
        except BaseException as error:
            ends.put(error)

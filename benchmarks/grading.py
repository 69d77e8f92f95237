"""Time from save to verdict, warm and cold, compared with a bare `import torch` in a fresh process. Prints a table.

    python benchmarks/grading.py [--exercises N] [--rounds N] [--isolation process|bubblewrap]

Cold: judge and worker are new. Warm: both were started in advance, with spare workers, and on Linux with a fork server.
`first`: the judge also reads the exercise's own code. `again`: the learner saves once more. The exercises are a sample
of the exercises without a speed limit; the time of a speed limit depends on its measurement.
The imports are spread over the run, so a busy moment affects all rows: compare the ratios to their median. With the
defaults, the script takes 40 seconds on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.course.model import Exercise
from gpututor.grading.client import GradingClient, IsolationName, WorkersName
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome

PAUSES_S: dict[WorkersName, float] = {"spare": 3.0, "fork server": 0.3}
"""Pause before a warm grading, in which the next worker gets ready; a learner reads for longer."""
START_S = 4.0
"""Pause after the judge's start, which imports torch."""
COLD, EXERCISES, ROUNDS = 2, 4, 2


def untimed(exercises: Sequence[Exercise]) -> list[Exercise]:
    """Return the exercises without a speed limit."""
    from gpututor.judge.author_code import load_code  # torch

    return [
        exercise
        for exercise in exercises
        if not any(check.speed or check.timed for check in load_code(exercise).checks)
    ]


def grade(client: GradingClient, exercise: Exercise) -> None:
    request = GradeRequest(str(exercise.folder), exercise.solution, "solution.py", device="virtual")
    *_, end = client.grade(request)
    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED, f"{exercise.slug}: {end.report.outcome}"


def timed(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def bare_import() -> None:
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def cold(exercise: Exercise, isolation: IsolationName) -> float:
    client = GradingClient(isolation)
    try:
        return timed(partial(grade, client, exercise))
    finally:
        client.close()


def warm(
    exercises: Sequence[Exercise], isolation: IsolationName, workers: WorkersName, rounds: int
) -> tuple[list[float], list[float]]:
    """Return the times of each exercise's first grading, and of the gradings after it."""
    client = GradingClient(isolation, workers)
    first: list[float] = []
    again: list[float] = []
    try:
        client.warm()
        time.sleep(START_S)
        for exercise in exercises:
            for times in (first, *[again] * rounds):
                time.sleep(PAUSES_S[workers])
                times.append(timed(partial(grade, client, exercise)))
    finally:
        client.close()
    return first, again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercises", type=int, default=EXERCISES, help="how many, spread over the course")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="gradings of each exercise after its first")
    parser.add_argument("--isolation", choices=("process", "bubblewrap"), default="process")
    chosen = parser.parse_args()
    course = untimed(load_course(paths.builtin_course()).exercises)
    exercises = course[:: max(1, len(course) // chosen.exercises)][: chosen.exercises]

    imports = [timed(bare_import)]
    rows = {"cold": [cold(exercise, chosen.isolation) for exercise in exercises[:COLD]]}
    kinds: tuple[WorkersName, ...] = ("fork server", "spare") if sys.platform == "linux" else ("spare",)
    for workers in kinds:
        imports.append(timed(bare_import))
        first, again = warm(exercises, chosen.isolation, workers, chosen.rounds)
        rows |= {f"warm, {workers}, first": first, f"warm, {workers}, again": again}
    imports.append(timed(bare_import))

    unit = statistics.median(imports)
    print(f"{'':<34}{'median':>10}{'worst':>10}{'ratio':>8}")
    for label, times in {"import torch, fresh process": imports, **rows}.items():
        median = statistics.median(times)
        print(f"{label:<34}{median * 1000:>7.0f} ms{max(times) * 1000:>7.0f} ms{median / unit:>8.2f}")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as on a learner's machine: a package is compiled once
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = str(Path(home))
        main()

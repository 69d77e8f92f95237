"""Time from save to verdict, warm and cold, and of a bare `import torch` in a fresh process. Prints a table.

    python benchmarks/grading.py [--exercises N] [--rounds N] [--isolation process|bubblewrap]

Cold: a new judge and a new worker. Warm: both started while the learner read; with spare workers, and with a fork
server on Linux. The exercises are spread over the course. With the defaults it takes about a minute on two quiet cores.
"""

from __future__ import annotations

import argparse
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
from gpututor.grading.client import GradingClient, IsolationName
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome

READING_S = 3.0
"""Pause before a warm grading: a worker is warm long before a learner has read anything."""
COLD, EXERCISES = 3, 6


def grade(client: GradingClient, exercise: Exercise) -> None:
    request = GradeRequest(str(exercise.folder), exercise.solution, "solution.py", device="virtual")
    *_, end = client.grade(request)
    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED, f"{exercise.slug}: {end.report.outcome}"


def timed(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def cold(exercise: Exercise, isolation: IsolationName) -> float:
    client = GradingClient(isolation)
    try:
        return timed(lambda: grade(client, exercise))
    finally:
        client.close()


def warm(client: GradingClient, exercises: Sequence[Exercise], rounds: int) -> list[float]:
    times: list[float] = []
    try:
        client.warm()
        for exercise in [*exercises] * rounds:
            time.sleep(READING_S)
            times.append(timed(partial(grade, client, exercise)))
    finally:
        client.close()
    return times


def bare_import() -> None:
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercises", type=int, default=EXERCISES, help="how many, spread over the course")
    parser.add_argument("--rounds", type=int, default=1, help="warm gradings of each exercise")
    parser.add_argument("--isolation", choices=("process", "bubblewrap"), default="process")
    chosen = parser.parse_args()
    rounds = chosen.rounds
    course = load_course(paths.builtin_course()).exercises
    exercises = course[:: max(1, len(course) // chosen.exercises)][: chosen.exercises]

    imports = [timed(bare_import) for _ in range(COLD)]
    colds = [cold(exercises[number % len(exercises)], chosen.isolation) for number in range(COLD)]
    spares = warm(GradingClient(chosen.isolation, "spare"), exercises, rounds)
    rows = [("import torch, fresh process", imports), ("cold grading", colds), ("warm grading, spare worker", spares)]
    if sys.platform == "linux":
        forked = warm(GradingClient(chosen.isolation, "fork server"), exercises, rounds)
        rows.append(("warm grading, fork server", forked))

    unit = statistics.median(imports)
    print(f"{'':<34}{'median':>10}{'worst':>10}{'ratio':>8}")
    for label, times in rows:
        median = statistics.median(times)
        print(f"{label:<34}{median * 1000:>7.0f} ms{max(times) * 1000:>7.0f} ms{median / unit:>8.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        import os

        os.environ["GPUTUTOR_HOME"] = str(Path(home))
        main()

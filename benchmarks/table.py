"""The figures that gpututor promises, in one table, each as a ratio to a simple baseline that runs in turn with it.

    python benchmarks/table.py [FIGURE …]          FIGURES to measure; by default all, which takes five minutes

Read the column `ratio` first. `to` names the baseline; a busy machine slows both. A goal that is a ratio holds on any
machine. A goal in milliseconds or per second holds on two quiet cores; on a busy machine, look at the ratio instead.
All figures are medians, except for the longest step: the most processor seconds of a step in one session. Each figure
has a script with more rows: startup, verbs, grading, app, virtual_gpu and throughput. Nothing is asserted.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `app.py` needs the tests' terminal

import app
import grading
import startup
import throughput
import verbs
import virtual_gpu

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.course.model import Exercise
from gpututor.grading.client import QUICKEST, GradingClient

LESSONS = (1, 2, 3)
GRADINGS = 60


@dataclass(frozen=True)
class Figure:
    """A line of the table."""

    value: str
    ratio: float
    to: str
    goal: str


def first_text() -> Figure:
    times = {name: statistics.median(values) for name, values in startup.measure(startup.RUNS).items()}
    ratio = times["gpututor"] / times["one Static"]
    return Figure(f"{times['gpututor'] * 1e3:.0f} ms", ratio, "a Textual app of one Static", "ratio 1.45")


def list_verb() -> Figure:
    times = {name: statistics.median(values) for name, values in verbs.measure(15).items()}
    value = times["gpututor list"]
    return Figure(f"{value:.0f} ms", value / times[verbs.BASELINE], verbs.BASELINE, "75 ms")


def untimed(lessons: tuple[int, ...] = ()) -> list[Exercise]:
    course = load_course(paths.builtin_course()).exercises
    return grading.untimed([exercise for exercise in course if not lessons or exercise.lesson_number in lessons])


def verdict() -> Figure:
    exercises = untimed(LESSONS)[:: len(LESSONS)]
    imports = [grading.timed(grading.bare_import)]
    _, again = grading.warm(exercises, "process", QUICKEST, rounds=3)
    imports.append(grading.timed(grading.bare_import))
    value = statistics.median(again)
    return Figure(f"{value * 1e3:.0f} ms", value / statistics.median(imports), "import torch", "100 ms")


def longest_step() -> Figure:
    value, _ = app.longest_steps((140, 40))[0]
    pause = statistics.median(startup.measure(3)["one Static"])
    return Figure(f"{value * 1e3:.0f} ms", value / pause, "a Textual app's first text", "33 ms")


def operator() -> Figure:
    times = virtual_gpu.medians_us(virtual_gpu.OPERATOR, virtual_gpu.REPEATS["operator"], 30)
    value, unit = times["virtual GPU"], next(iter(times.values()))
    return Figure(f"{value:.0f} µs", value / unit, "FakeTensorMode", "ratio 0.33")


def training_step() -> Figure:
    times = virtual_gpu.medians_us(virtual_gpu.steps(*virtual_gpu.SHAPES[0]), virtual_gpu.REPEATS["step"], 30)
    value, unit = times["virtual GPU"], times["plain CPU"]
    return Figure(f"{value / 1e3:.1f} ms", value / unit, "the same step on the CPU", "ratio 4")


def compiled_call() -> Figure:
    times = virtual_gpu.medians_us(virtual_gpu.COMPILED, virtual_gpu.REPEATS["compiled"], 5)
    eager, compiled = times.values()
    return Figure(f"{compiled:.0f} µs", compiled / eager, "the same call, eager", "ratio 1.3")


def class_() -> Figure:
    exercises = untimed(LESSONS)
    clients = [GradingClient("bubblewrap", QUICKEST) for _ in range(2)]
    try:
        for client in clients:
            throughput.throughput([client], exercises, len(exercises))  # judges read each exercise's code once
        with tempfile.TemporaryDirectory() as folder:
            unit = throughput.naive(exercises, Path(folder))
        rate = throughput.throughput(clients, exercises, GRADINGS)
    finally:
        for client in clients:
            client.close()
    return Figure(f"{rate:.1f}/s", rate / unit, "a fresh Python for each", "15/s")


FIGURES: dict[str, Callable[[], Figure]] = {
    "first-text": first_text,
    "list": list_verb,
    "verdict": verdict,
    "longest-step": longest_step,
    "operator": operator,
    "training-step": training_step,
    "compiled-call": compiled_call,
    "class": class_,
}


def main(names: list[str]) -> None:
    print(f"{'':<14}{'value':>9}{'ratio':>8}  {'to':<30}goal", flush=True)
    for name in names or FIGURES:
        figure = FIGURES[name]()
        print(f"{name:<14}{figure.value:>9}{figure.ratio:>8.2f}  {figure.to:<30}{figure.goal}", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as on a learner's machine: a package is compiled once
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = home
        main(sys.argv[1:])

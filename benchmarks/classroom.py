"""A big class: graded, resumed and reported on, compared with a fresh Python with pytest for each. Prints tables.

    python benchmarks/classroom.py [--submissions N] [--isolation process|bubblewrap] [--judges N] [--naive N]
    python benchmarks/classroom.py --executor ray [--submissions N]

The class is the same as in the tests: solutions, starters, wrong, hostile and broken files, for exercises without
timing. It is graded on the virtual GPU. Gradings per second are counted from the first finished grading, and also from
the graders' start. Memory is the resident memory of the program, the largest judge and the largest fork server. Pages
that they share count in each.
The naive way is a fresh Python with pytest for each submission, one at a time. It runs a test file that imports the
submission and asserts parity with the solution on the virtual GPU, in all cases. It has no isolation, no other checks
and no report. This script asserts nothing.

With --executor ray, two local nodes of a Ray cluster (extra `ray`) grade the class again. One node is killed in the
middle. The marks must be the same.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests know how to make a class

from classroom_runs import Graded, grade, memory_table

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import LAYOUTS
from tests.support.big_class import SECRET, SUBMISSIONS, BigClass, Submission, big_class
from tests.support.big_class_layouts import lay_out

RESUME_LIMIT_S, FIRST_VERDICT_LIMIT_S = 5.0, 5.0
LEAST_PER_S = 15.0
NAIVE_KINDS = ("solution", "renamed", "starter", "wrong")
NAIVE_LESSON, NAIVE_SUBMISSIONS = 2, 20
"""Lesson in which every exercise is a function whose results can be compared."""
NAIVE_TEST = """
import importlib.util

import pytest
import torch
from torch.utils._pytree import tree_leaves

import submission


def load(name):
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{{name}}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


given, solution = load("given"), load("solution")


def results(module, case):
    arguments = given.build(given.draw(7, case), torch.device("cuda"))
    return [leaf for leaf in tree_leaves(module.{entry}(**arguments)) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("case", range({cases}))
def test_parity(case):
    for got, expected in zip(results(submission, case), results(solution, case), strict=True):
        torch.testing.assert_close(got.cpu(), expected.cpu())
"""


def naive(big: BigClass, folder: Path, number: int) -> float:
    """Return submissions per second."""
    suitable = [each for each in big.submissions if each.kind in NAIVE_KINDS]
    suitable = [each for each in suitable if each.exercise.lesson_number == NAIVE_LESSON]
    sample = random.Random(8).sample(suitable, min(number, len(suitable)))
    start = time.perf_counter()
    for place, submission in enumerate(sample):
        _test_submission(submission, folder / str(place))
    return len(sample) / (time.perf_counter() - start)


def _test_submission(submission: Submission, folder: Path) -> None:
    folder.mkdir()
    exercise = submission.exercise
    (folder / "submission.py").write_bytes(submission.content)
    test = NAIVE_TEST.format(folder=exercise.folder, entry=exercise.entry, cases=exercise.cases)
    (folder / "test_submission.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--virtual-gpus", "1"]
    subprocess.run([*command, "test_submission.py"], cwd=folder, capture_output=True, check=False)


def timed(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gpututor", "classroom", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def print_class(graded: Graded, chosen: argparse.Namespace) -> None:
    summary = graded.summary
    print(
        f"{summary['handed_in']} files of {summary['students']} students, {summary['refused']} refused; "
        f"{summary['gradings']} gradings, {chosen.isolation}, {chosen.judges} judges, {os.cpu_count()} cores\n"
        f"{summary['outcomes']}; {summary['retried']} tried again, {len(summary['not_graded'])} not graded\n"  # type: ignore[arg-type]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=SUBMISSIONS)
    parser.add_argument("--isolation", choices=("process", "bubblewrap"), default="bubblewrap")
    parser.add_argument("--judges", type=int, default=2)
    executor_help = "ray: by Ray as well, on two nodes one of which is killed; instead of all that follows"
    parser.add_argument("--executor", choices=("local", "ray"), default="local", help=executor_help)
    parser.add_argument("--naive", type=int, default=NAIVE_SUBMISSIONS, help="how many of them the naive way, too")
    parser.add_argument("--layout", choices=LAYOUTS, default="folders")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        big = big_class(base / "course", chosen.submissions)
        source, folder = lay_out(big, chosen.layout, base / "in"), ClassFolder(base / "out")
        (base / "secret").write_text(f"{SECRET}\n")
        options = ["--course", str(big.course.folder), "--secret", str(base / "secret"), "--device", "virtual"]
        options += ["--isolation", chosen.isolation, "--judges", str(chosen.judges)]
        graded = grade(source, folder, options)
        print_class(graded, chosen)
        if chosen.executor == "ray":
            from classroom_ray import print_ray

            print_ray(big, source, folder, graded, options)
            return
        out = str(folder.folder)
        resume_s = timed("grade", str(source), "--out", out, "--resume")
        page = base / "page.html"
        others = {
            "report": timed("report", out),
            "report --all": timed("report", out, "--all"),
            "report --html": timed("report", out, "--html", str(page)),
            "review": timed("review", out),
            "feedback": timed("feedback", out),
        }
        page_mib = page.stat().st_size / 2**20
        (base / "naive").mkdir()
        unit = naive(big, base / "naive", chosen.naive)

    print(f"{'':<44}{'per second':>12}{'ratio':>8}")
    rows = {
        "naive: a fresh Python with pytest for each": unit,
        f"gradings (wanted: {LEAST_PER_S:g})": graded.per_s(),
        "with the graders' start": float(str(graded.summary["per_s"])),
    }
    for label, per_s in rows.items():
        print(f"{label:<44}{per_s:>12.2f}{per_s / unit:>8.1f}")
    print("\n".join(memory_table(graded)))
    print(f"\n{'of the class':<44}{'seconds':>12}")
    print(f"{f'first verdict (limit: {FIRST_VERDICT_LIMIT_S:g})':<44}{graded.first_verdict_s:>12.2f}")
    print(f"{f'grade --resume (limit: {RESUME_LIMIT_S:g})':<44}{resume_s:>12.2f}")
    for label, seconds in others.items():
        print(f"{label:<44}{seconds:>12.2f}")
    print(f"the page has {page_mib:.1f} MiB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = home
        main()

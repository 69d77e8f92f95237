"""Exercises whose submission is a script: it is run as a program, with arguments, and told of as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.report import Outcome
from tests.support.gradings import Grade

MANIFEST = """\
title = "A program"
summary = "Add numbers on the device, and save the sum."
minutes = 5
kind = "script"
devices = ["virtual"]
"""
GIVEN = """\
def draw(seed, case):
    return {"argv": ["--number", str(seed % 1000 + case), "--times", "3"]}
"""
CHECKS = """\
import torch
from gpututor.checks import Wanted, files, in_loop, source, speed, transfers, value


def printed(drawn, machine):
    return f"{3 * int(drawn['argv'][1])}\\n"


def saved(argv):
    return {"sum": torch.tensor(3.0 * int(argv[1]))}


checks = [
    transfers(to_host=1),
    source(forbid=(in_loop("item"),)),
    files({"sum.pt": Wanted("torch", like=saved, devices="cpu")}),
    speed(0.9, baseline="baseline.py"),
    value(printed),
]
"""
SLOW = """\
import argparse
import sys
import torch

LEFT = []


def main(number, times):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert not LEFT, "each run is a program of its own"
    LEFT.append(number)
    total = torch.zeros((), device=device)
    for _ in range(times):
        total = total + number
    total = total.cpu()
    torch.save({"sum": total}, "sum.pt")
    print(int(total))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=float, default=1)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    sys.exit(main(given.number, given.times))
"""
QUICK = SLOW.replace(
    """    total = torch.zeros((), device=device)
    for _ in range(times):
        total = total + number
""",
    "    total = torch.full((), number * times, device=device)\n",
)


@pytest.fixture(autouse=True)
def _script(exercise_folder: Path) -> None:
    texts = {"exercise.toml": MANIFEST, "given.py": GIVEN, "checks.py": CHECKS, "baseline.py": SLOW}
    for name, text in {**texts, "solution.py": QUICK}.items():
        (exercise_folder / name).write_text(text)


def test_a_script_is_judged_by_what_it_prints_writes_and_does(grade: Grade) -> None:
    report = grade(QUICK)
    assert report.outcome is Outcome.PASSED, report.verdicts
    sentences = [verdict.sentence for verdict in report.verdicts]
    assert sentences[:2] == ["The file is a script in Python", "The script runs to its end"]
    lines = report.runs[0].output.splitlines()
    seed = report.environment.seed
    assert [int(line) for line in lines] == [3 * ((seed + case) % 1000 + case) for case in range(3)]


@pytest.mark.parametrize(
    ("was", "becomes", "check", "got"),
    [
        ("total = total.cpu()", "total = total.cpu().cuda().cpu()", "transfers", "2 device-to-host copies"),
        ('"sum": total', '"sum": total + 1', "files", "sum.pt"),
        ("print(int(total))", "print(7)", "value", "'7\\n'"),
        ("torch.full((), number * times, device=device)", "torch.zeros((), device=device)", "files", "sum.pt"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(grade: Grade, was: str, becomes: str, check: str, got: str) -> None:
    report = grade(QUICK.replace(was, becomes))
    first = report.first_failure
    assert first is not None
    assert (report.outcome, first.check) == (Outcome.FAILED, check)
    assert got in first.got
    found = {"transfers": "total = total.cpu()", "files": '"sum.pt"', "value": "print("}[check]
    assert first.line is not None
    assert found in QUICK.replace(was, becomes).splitlines()[first.line - 1]


def test_code_below_main_is_code_that_runs(grade: Grade) -> None:
    below = (
        "    torch.save({'sum': torch.tensor(1.0)}, 'sum.pt')\n    for one in range(2):\n        torch.ones(1).item()\n"
    )
    report = grade(QUICK.replace("    sys.exit", f"{below}    sys.exit"))
    first = report.first_failure
    assert first is not None
    assert (first.check, first.line) == ("source", QUICK[: QUICK.index("    sys.exit")].count("\n") + 3)


def test_a_slow_script_is_told_beside_the_baseline(grade: Grade) -> None:
    assert grade(SLOW).outcome is Outcome.TOO_SLOW


def test_a_baseline_that_was_changed_is_run_anew(grade: Grade, exercise_folder: Path) -> None:
    """It is kept for the next grading with the same seed, but not when its text is another one."""
    assert [grade(QUICK, seed=7).outcome for _ in range(2)] == [Outcome.PASSED, Outcome.PASSED]
    (exercise_folder / "baseline.py").write_text(QUICK)
    assert grade(QUICK, seed=7).outcome is Outcome.TOO_SLOW


def test_a_status_that_is_not_0_is_an_error_of_the_script(grade: Grade) -> None:
    report = grade(QUICK.replace("return 0", "return 3"))
    first = report.first_failure
    assert first is not None
    assert (report.outcome, first.check, first.expected) == (Outcome.ERROR, "runs", "the script runs to its end")
    assert first.got.startswith("SystemExit: 3, at line ")


def test_an_argument_that_it_does_not_know_is_told(grade: Grade) -> None:
    report = grade(QUICK.replace('"--times"', '"--time-s"'))
    assert report.outcome is Outcome.ERROR
    assert "unrecognized arguments: --times" in report.runs[0].output

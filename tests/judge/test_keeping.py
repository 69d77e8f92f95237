"""The judge writes the journal, under a key that is true, and nothing that says nothing of the submission."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor import __version__
from gpututor.course.loader import load_exercise
from gpututor.grading.journal import GradingKey, entries, exercise_digest, read_entry
from gpututor.grading.report import Outcome
from gpututor.hardware.inventory import torch_version
from tests.support.gradings import Grade

RIGHT = "def twice(number):\n    return 2 * number\n"
DIES_BY_ITS_OWN_HAND = "import os, signal\n\n\ndef twice(number):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


def key_of(folder: Path, text: str) -> GradingKey:
    return GradingKey(
        hashlib.sha256(text.encode()).hexdigest(),
        load_exercise(folder).key,
        exercise_digest(folder),
        __version__,
        torch_version(),
        "virtual",
        "process",
        "0" * 16,
    )


def test_a_noted_name_needs_a_review_under_a_key(grade: Grade, exercise_folder: Path) -> None:
    source = f"import gc\n{RIGHT}"
    report = grade(source, device="virtual", seed=3, key=key_of(exercise_folder, source))
    assert report.outcome is Outcome.NEEDS_REVIEW


def test_the_report_is_in_the_journal_when_the_judge_says_that_it_is_done(
    grade: Grade, exercise_folder: Path, tmp_path: Path
) -> None:
    key = key_of(exercise_folder, RIGHT)
    report = grade(RIGHT, device="virtual", seed=3, journal=str(tmp_path / "journal"), key=key)
    assert report.environment.seed == 3
    assert read_entry(tmp_path / "journal", key) == report


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"submission": "0" * 64}, "submission is "),
        ({"exercise_version": "0" * 64}, "exercise_version is "),
        ({"torch": "1.0"}, f"torch is {torch_version()!r}, not '1.0'"),
        ({"gpututor": "9"}, f"gpututor is {__version__!r}, not '9'"),
        ({"isolation": "bubblewrap"}, "isolation is 'process', not 'bubblewrap'"),
        ({"device": "virtual A100"}, "device is 'virtual', not 'virtual A100'"),
    ],
)
def test_a_key_that_is_not_true_is_an_internal_error_and_not_written(
    grade: Grade, exercise_folder: Path, tmp_path: Path, told: dict[str, str], words: str
) -> None:
    key = replace(key_of(exercise_folder, RIGHT), **told)
    report = grade(RIGHT, device="virtual", journal=str(tmp_path / "journal"), key=key)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert words in report.reason
    assert list(entries(tmp_path / "journal")) == []


def test_an_internal_error_is_not_written(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    (exercise_folder / "checks.py").write_text("checks = 3\n")
    report = grade(RIGHT, device="virtual", journal=str(tmp_path / "journal"), key=key_of(exercise_folder, RIGHT))
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert list(entries(tmp_path / "journal")) == []


def test_a_journal_that_cannot_be_written_is_told(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("in the way")
    report = grade(RIGHT, device="virtual", journal=str(tmp_path / "journal"), key=key_of(exercise_folder, RIGHT))
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert "cannot be written" in report.reason


def test_a_submission_that_kills_itself_is_found_out_at_the_second_try(
    grade: Grade, exercise_folder: Path, tmp_path: Path
) -> None:
    key = key_of(exercise_folder, DIES_BY_ITS_OWN_HAND)
    report = grade(DIES_BY_ITS_OWN_HAND, device="virtual", journal=str(tmp_path / "journal"), key=key)
    assert report.outcome is Outcome.CRASHED
    assert read_entry(tmp_path / "journal", key) == report


def test_a_worker_that_somebody_else_kills_costs_the_submission_nothing(
    grade: Grade, exercise_folder: Path, tmp_path: Path
) -> None:
    """The stand-in for somebody else: the file kills its process only where nothing says that it did so before."""
    mark = tmp_path / "was-here"
    text = (
        "import os, pathlib, signal\n\n\ndef twice(number):\n"
        f"    mark = pathlib.Path({str(mark)!r})\n"
        "    if not mark.exists():\n        mark.touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 2 * number\n"
    )
    key = key_of(exercise_folder, text)
    report = grade(text, device="virtual", journal=str(tmp_path / "journal"), key=key)
    assert mark.exists()
    assert report.outcome is not Outcome.CRASHED
    assert read_entry(tmp_path / "journal", key) == report

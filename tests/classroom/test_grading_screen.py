"""What `classroom grade` says while it grades, and at its end."""

from __future__ import annotations

import errno
import io
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.jobs import Options
from gpututor.classroom.plan import GradingPlan
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import MOST_ATTEMPTS, Progress, WorkQueue
from gpututor.cli.classroom.grade import (
    MOST_LISTED,
    GradingOutput,
    ProgressLine,
    duration,
    failure_lines,
    progress_line,
    summary_of,
)
from gpututor.errors import NotGradableHere
from gpututor.grading.report import Outcome
from tests.support.fake_judges import job_of

OPTIONS = Options("auto", "", "process", "0.1.0", "2.9.0", "0" * 16, "", "")


def begun(folder: Path, count: int) -> tuple[GradingPlan, WorkQueue]:
    jobs = [job_of(folder, "lesson/one", str(number)) for number in range(count)]
    return GradingPlan(Class("course", "folders", (), (), ()), OPTIONS, jobs, 2, ()), WorkQueue(jobs)


def test_one_line_tells_how_far_it_is() -> None:
    assert progress_line(Progress(7)) == "0 of 7; the graders are starting"
    outcomes = {Outcome.ERROR: 2, Outcome.PASSED: 9}
    progress = Progress(120, outcomes, abandoned=1, retried=3, elapsed_s=10.0, since_first_s=5.0)
    whole = "11 of 120, 1.1/s, 0:54 left: 9 passed, 2 error; 3 tried again; 1 not graded"
    assert progress_line(progress) == whole
    for width in range(20, len(whole)):
        line = progress_line(progress, width)
        assert len(line) <= width
        assert whole.startswith(line.removesuffix(" …"))


def test_durations_are_as_on_a_clock() -> None:
    assert [duration(seconds) for seconds in (0, 7.4, 147, 3723)] == ["0:00", "0:07", "2:27", "1:02:03"]


def test_what_could_not_be_graded_is_told_and_nobody_blamed(tmp_path: Path) -> None:
    start, work = begun(tmp_path, MOST_LISTED + 2)
    while (attempt := work.claim()) is not None:
        if attempt.number == 1 and not work.progress.done:
            work.complete(attempt, Outcome.PASSED)
        else:
            work.fail(attempt, f"It \x1b[31mbroke {attempt.job.key.name}.\nAdvice.")
    stream = io.StringIO()
    GradingOutput(stream, "gpututor classroom grade in --out out --resume").print_end(start, work, is_stopped=False)
    said = stream.getvalue()
    assert f"Graded 1 of {MOST_LISTED + 2}" in said
    assert said.count("! not graded: lesson/one") == MOST_LISTED
    assert f"{MOST_ATTEMPTS} attempts: It " in said
    assert "\x1b" not in said
    assert "… and 1 more: troubles.json has all of them" in said
    assert "not the students' fault" in said
    assert "gpututor classroom grade in --out out --resume" in said


def test_what_has_the_same_reason_is_told_once(tmp_path: Path) -> None:
    _, work = begun(tmp_path, 40)
    while (attempt := work.claim()) is not None:
        work.abandon(attempt, "No device is left.\nAdvice.")
    (line,) = failure_lines(work.failures)
    assert line.startswith("! not graded: lesson/one, submission ")
    assert line.endswith(", 1 attempt, and 39 more: No device is left.")


def test_who_is_stopped_reads_how_to_go_on_and_the_summary_says_why(tmp_path: Path) -> None:
    start, work = begun(tmp_path, 3)
    attempt = work.claim()
    assert attempt is not None
    work.complete(attempt, Outcome.FAILED)
    stream = io.StringIO()
    GradingOutput(stream, "go on").print_end(start, work, is_stopped=True)
    assert "Graded 1 of 3" in stream.getvalue()
    assert "Finished gradings are saved. Resume with:\n  go on" in stream.getvalue()
    summary = summary_of(tmp_path, start, work, NotGradableHere("No device is left."))
    assert (summary["gradings"], summary["already"], summary["done"]) == (5, 2, 1)
    assert summary["stopped"] == "No device is left."
    assert summary_of(tmp_path, start, work, KeyboardInterrupt())["stopped"] == "interrupted"


class Gone(io.StringIO):
    """A terminal that was closed."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_gone_ends_no_grading(tmp_path: Path) -> None:
    start, work = begun(tmp_path, 1)
    screen = GradingOutput(Gone(), "again")
    with ProgressLine(work, screen.stream):
        screen.notify("One line.")
    screen.print_end(start, work, is_stopped=False)


@pytest.mark.parametrize(("user", "isolation", "told"), [(0, "process", 3), (1000, "process", 2), (0, "bubblewrap", 1)])
def test_a_class_that_is_graded_as_you_is_warned_and_more_so_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, isolation: str, told: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    start, _ = begun(tmp_path, 1)
    stream = io.StringIO()
    GradingOutput(stream, "").print_plan(replace(start, options=replace(OPTIONS, isolation=isolation)))
    said = stream.getvalue()
    assert ("class.secret" in said, "root" in said) == (told > 1, told > 2)

"""Nothing outlives a grading, however it ends; and a grading ends, whatever its submission does to the judge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.errors import GradingError
from gpututor.grading import judge_process
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome
from tests.support.gradings import time_limit
from tests.support.tiny_course import RIGHT

BOTH = (pytest.param("process", marks=pytest.mark.long), pytest.param("bubblewrap", marks=pytest.mark.isolation))


def outlived(isolation: str, tries: int, exercise_folder: Path) -> list[str]:
    """Return the tries that left processes, from two processes at once to which orphans come."""
    share = str(tries // 2)
    command = [sys.executable, "-m", "tests.support.interrupted_gradings", isolation, share, str(exercise_folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for process in running for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in running] == [0, 0]
    assert len(lines) == tries
    return [line for line in lines if not line.endswith(" 0")]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to another process than the first only there")
@pytest.mark.parametrize("isolation", BOTH)
def test_nothing_outlives_gradings_that_end_in_all_ways(isolation: str, exercise_folder: Path) -> None:
    assert outlived(isolation, 12, exercise_folder) == []


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to another process than the first only there")
@pytest.mark.parametrize("isolation", BOTH)
def test_nothing_outlives_two_hundred_gradings(isolation: str, exercise_folder: Path) -> None:
    assert outlived(isolation, 204, exercise_folder) == []


STOPS_ALL_ABOVE = """
import os, signal
above, names = os.getppid(), []
while above > 1:
    with open(f"/proc/{above}/cmdline") as command:
        if "gpututor" not in command.read():
            break
    names.append(above)
    with open(f"/proc/{above}/stat") as status:
        above = int(status.read().rpartition(")")[2].split()[1])
for process in names[:@most@]:
    os.kill(process, signal.SIGSTOP)


def twice(number):
    return 2 * number
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for its parents in /proc")
@pytest.mark.parametrize(
    "most",
    [pytest.param(1, id="the judge"), pytest.param(2, marks=pytest.mark.long, id="the judge and its keeper")],
)
def test_a_submission_that_stops_its_judge_ends_in_words(
    exercise_folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(judge_process, "SLACK_S", 1.0)
    time_limit(exercise_folder, 4.0)
    client = GradingClient()
    try:
        with pytest.raises(GradingError) as error:
            list(client.grade(GradeRequest(str(exercise_folder), STOPS_ALL_ABOVE.replace("@most@", str(most)), "a.py")))
        assert error.value.exit_code == 4
        assert "did not respond" in error.value.title

        *_, end = client.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py"))
        assert isinstance(end, GradingFinished)
        assert end.report.outcome is Outcome.PASSED
    finally:
        client.close()

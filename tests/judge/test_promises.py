"""What the grader promises beyond verdicts: limits, a clean environment, fresh starts, an end at any time."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingFinished, ScenarioStarted
from gpututor.grading.report import Outcome, Report
from gpututor.processes import descendants
from tests.support.gradings import Grade, gone, wait_for
from tests.support.tiny_course import RIGHT

ENDLESS = "def twice(number):\n    while True:\n        pass\n"


def printed_by(report: Report) -> object:
    """What the submission printed in its first call, as JSON."""
    return json.loads(report.runs[0].output.splitlines()[0])


def test_a_worker_has_limits_for_core_dumps_files_and_memory(grade: Grade) -> None:
    report = grade(
        "import json, resource\n\n\ndef twice(number):\n"
        "    kinds = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)\n"
        "    print(json.dumps([resource.getrlimit(kind) for kind in kinds]))\n    return 2 * number\n"
    )

    for limits in printed_by(report):  # type: ignore[attr-defined]
        assert all(0 <= limit != resource.RLIM_INFINITY for limit in limits)


def test_a_worker_sees_no_variable_of_the_learners_shell(
    exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = GradingClient()
    monkeypatch.setenv("GPUTUTOR_SECRET", "hidden")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    try:
        tell = "import json, os\n\n\ndef twice(number):\n    print(json.dumps(dict(os.environ)))\n"
        report = graded(client, tell, exercise_folder)
    finally:
        client.close()

    seen = printed_by(report)
    assert isinstance(seen, dict)
    assert not {"GPUTUTOR_SECRET", "GPUTUTOR_HOME"} & seen.keys()
    # The virtual GPU puts a folder of its own there, for the processes that a submission starts.
    assert "/nowhere" not in seen.get("PYTHONPATH", "")
    assert Path(seen["HOME"]).parent == Path(tempfile.gettempdir())


def test_what_one_scenario_sets_is_gone_in_the_next(grade: Grade, exercise_folder: Path) -> None:
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write('[[scenario]]\nname = "first"\n[[scenario]]\nname = "second"\n')

    report = grade(
        "import torch\n\n\ndef twice(number):\n    print(torch.get_default_dtype(), torch.is_grad_enabled())\n"
        "    torch.set_default_dtype(torch.float64)\n    torch.set_grad_enabled(False)\n    return 2 * number\n"
    )

    assert [run.output.splitlines()[0] for run in report.runs] == ["torch.float32 True", "torch.float32 True"]


def test_without_a_seed_each_grading_draws_other_inputs(grade: Grade) -> None:
    assert grade(RIGHT).environment.seed != grade(RIGHT).environment.seed


def test_cancel_is_the_judges_work_and_it_goes_on_living(client: GradingClient, exercise_folder: Path) -> None:
    events = client.grade(GradeRequest(str(exercise_folder), ENDLESS, "a.py"))
    assert isinstance(next(events), ScenarioStarted)
    judge = client._judge
    client.cancel()

    assert isinstance(list(events)[-1], GradingCancelled)
    assert client._judge is judge
    assert judge is not None
    assert judge.poll() is None


@pytest.mark.long
def test_a_judge_that_does_not_hear_the_cancel_is_killed(exercise_folder: Path) -> None:
    client = GradingClient()
    try:
        events = client.grade(GradeRequest(str(exercise_folder), ENDLESS, "a.py"))
        next(events)
        judge = client._judge
        assert judge is not None
        pid = judge.pid
        os.kill(pid, signal.SIGSTOP)
        client.cancel()

        assert isinstance(list(events)[-1], GradingCancelled)
        assert gone(pid)
        assert graded(client, RIGHT, exercise_folder).outcome is Outcome.PASSED
    finally:
        client.close()


def test_a_worker_dies_with_its_judge(exercise_folder: Path) -> None:
    client = GradingClient()
    try:
        events = client.grade(GradeRequest(str(exercise_folder), ENDLESS, "a.py"))
        next(events)
        judge = client._judge
        assert judge is not None
        workers = descendants(judge.pid)
        assert workers
        os.kill(judge.pid, signal.SIGKILL)

        wait_for(lambda: all(gone(worker) for worker in workers))
        client.cancel()
        assert isinstance(list(events)[-1], GradingCancelled)
    finally:
        client.close()


WAITING = 2 if sys.platform == "linux" else 1
"""Processes below the judge while it waits: the fork server and its next child, or a spare worker."""


def has_died(pid: int) -> bool:
    """It is gone, or waits for its parent to take note."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip()[:1] in ("", "Z")


@pytest.mark.parametrize("harm", ["killed", "without its folder"])
def test_a_worker_that_came_to_harm_while_it_waited_is_replaced(client: GradingClient, grade: Grade, harm: str) -> None:
    assert grade(RIGHT).outcome is Outcome.PASSED
    assert client._judge is not None
    judge = client._judge.pid
    wait_for(lambda: len(descendants(judge)) == WAITING)
    if harm == "killed":
        *_, spare = descendants(judge)
        os.kill(spare, signal.SIGKILL)
        wait_for(lambda: has_died(spare))
    else:
        for folder in Path(tempfile.gettempdir()).glob(f"gpututor-{judge}-*"):
            shutil.rmtree(folder)

    assert grade(RIGHT).outcome is Outcome.PASSED


def test_a_grading_leaves_no_scratch_folder(client: GradingClient, grade: Grade) -> None:
    grade("import os\n\n\ndef twice(number):\n    open('left.txt', 'w').write('x')\n    return 2 * number\n")

    assert client._judge is not None
    scratch = Path(tempfile.gettempdir()).glob(f"gpututor-{client._judge.pid}-*")
    assert not [folder for folder in scratch if (folder / "left.txt").exists()]


@pytest.mark.long
def test_what_a_killed_judge_left_is_swept_by_the_next_one(exercise_folder: Path) -> None:
    dead = 2**22 - 1
    assert not Path(f"/proc/{dead}").exists()
    left = Path(tempfile.gettempdir(), f"gpututor-{dead}-left")
    left.mkdir()
    client = GradingClient()
    try:
        assert graded(client, RIGHT, exercise_folder).outcome is Outcome.PASSED
    finally:
        client.close()

    assert not left.exists()


def graded(client: GradingClient, submission: str, folder: Path) -> Report:
    *_, end = client.grade(GradeRequest(str(folder), submission, "a.py"))
    assert isinstance(end, GradingFinished)
    return end.report

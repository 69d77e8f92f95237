"""Grading from end to end: each way to fail has its own clear verdict, and nothing survives a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import CheckFinished, GradeRequest, GradingCancelled, GradingFinished, ScenarioStarted
from gpututor.grading.report import Outcome, Status
from tests.support.gradings import EMPTY_TRACE, Grade, failure, gone, time_limit, wait_for
from tests.support.tiny_course import RIGHT


def test_a_right_solution_passes_with_every_check_named(grade: Grade) -> None:
    report = grade(RIGHT)

    assert report.outcome is Outcome.PASSED
    assert [verdict.check for verdict in report.verdicts] == ["loads", "runs", "value"]
    assert all(verdict.status is Status.PASSED for verdict in report.verdicts)
    assert report.device == "cuda:0, virtual T4"
    assert report.runs[0].virtual


def test_a_wrong_value_says_what_was_expected_and_what_came(grade: Grade) -> None:
    report = grade("def twice(number):\n    return number\n", seed=20)

    assert report.outcome is Outcome.FAILED
    first = report.first_failure
    assert first is not None
    assert (first.check, first.expected, first.line) == ("value", "40", 2)
    assert "20 instead of 40" in first.got
    assert first.why
    assert first.advice


def test_the_same_seed_draws_the_same_inputs(grade: Grade) -> None:
    broken = "def twice(number):\n    raise ValueError(number)\n"

    assert (
        failure(grade(broken, seed=7))
        == failure(grade(broken, seed=7))
        == (
            "runs",
            "ValueError: 7, at line 2 (call 1 of 3, with number=7)",
            2,
        )
    )


def test_a_syntax_error_names_its_line(grade: Grade) -> None:
    report = grade("def twice(number):\n    return (2 *\n")

    assert report.outcome is Outcome.ERROR
    check, got, line = failure(report)
    assert (check, line) == ("loads", 2)
    assert "SyntaxError: '(' was never closed, at line 2" in got


@pytest.mark.parametrize("start", ["\ufeff", "# coding: utf-7\n", "# coding: latin-1\n", "\ufeff# coding: utf-8\n"])
def test_a_file_means_what_its_text_says_whatever_coding_it_names(grade: Grade, start: str) -> None:
    assert grade(start + RIGHT).outcome is Outcome.PASSED
    # In UTF-7 the comment would be a line of code of its own.
    assert grade(f"{start}{RIGHT}# +AAo-raise SystemExit\n").outcome is Outcome.PASSED


def test_a_missing_function_is_named_with_the_nearest_one(grade: Grade) -> None:
    check, got, _ = failure(grade("def twise(number):\n    return 2 * number\n"))

    assert check == "loads"
    assert "there is no function called twice" in got
    assert "twise" in got


def test_an_import_that_fails_names_its_line(grade: Grade) -> None:
    assert failure(grade("\nimport torchh\n")) == (
        "loads",
        "ModuleNotFoundError: No module named 'torchh', at line 2",
        2,
    )


def test_a_traceback_shows_the_learners_frames_and_no_path(grade: Grade) -> None:
    report = grade("import torch\n\ndef twice(number):\n    return torch.ones(2) + torch.ones(3)\n")

    text = report.runs[0].traceback
    assert 'File "01_twice.py", line 4, in twice' in text
    assert "/" not in text.replace("01_twice.py", "")


def test_an_endless_loop_is_stopped_and_its_line_told(grade: Grade, exercise_folder: Path) -> None:
    time_limit(exercise_folder, 1)

    report = grade("def twice(number):\n    while True:\n        number += 0\n")

    assert report.outcome is Outcome.TIMEOUT
    check, got, line = failure(report)
    assert check == "runs"
    assert "still running after 1 s" in got
    assert line in (2, 3)


def test_sys_exit_is_not_a_pass(grade: Grade) -> None:
    report = grade("import sys\n\ndef twice(number):\n    sys.exit(0)\n", seed=1)

    assert report.outcome is Outcome.ERROR
    assert failure(report) == ("runs", "SystemExit: 0, at line 4 (call 1 of 3, with number=1)", 4)


def test_os_exit_is_not_a_pass(grade: Grade) -> None:
    report = grade("import os\n\ndef twice(number):\n    os._exit(0)\n")

    assert report.outcome is Outcome.ERROR
    assert failure(report)[:2] == ("runs", "the code ended the whole process (exit status 0)")


def test_a_crash_names_its_signal(grade: Grade) -> None:
    report = grade("import os, signal\n\ndef twice(number):\n    os.kill(os.getpid(), signal.SIGSEGV)\n")

    assert report.outcome is Outcome.CRASHED
    assert "SIGSEGV" in failure(report)[1]


def test_a_megabyte_of_output_has_its_own_verdict(grade: Grade) -> None:
    report = grade("print('x' * (1 << 20))\n" + RIGHT)

    assert report.outcome is Outcome.FAILED
    assert failure(report)[0] == "prints"
    assert "1,024 KiB" in failure(report)[1]
    assert len(report.runs[0].output) == 64 << 10


def test_a_hundred_megabytes_of_output_are_drained_and_dropped(grade: Grade) -> None:
    report = grade("for _ in range(100):\n    print('x' * (1 << 20))\n" + RIGHT)

    assert report.runs[0].output_dropped_bytes > 99 << 20
    assert failure(report)[0] == "prints"


def test_a_little_output_is_shown_and_harms_nothing(grade: Grade) -> None:
    report = grade("def twice(number):\n    print('number is', number)\n    return 2 * number\n", seed=3)

    assert report.outcome is Outcome.PASSED
    assert report.runs[0].output == "number is 3\nnumber is 5\nnumber is 7\n"


def test_the_profiler_of_torch_prints_nothing_of_its_own_among_the_learners_lines(grade: Grade) -> None:
    report = grade(
        "from torch.profiler import ProfilerActivity, profile\n\n\n"
        "def twice(number):\n    with profile(activities=[ProfilerActivity.CPU]):\n"
        "        return 2 * number\n"
    )

    assert report.outcome is Outcome.PASSED
    assert report.runs[0].output == ""


def test_markup_in_an_error_arrives_as_it_was_written(grade: Grade) -> None:
    report = grade("def twice(number):\n    raise ValueError('[/int] [@click=app.quit]x[/]')\n")

    assert "[/int] [@click=app.quit]x[/]" in failure(report)[1]


def test_an_exception_whose_text_raises_is_still_told(grade: Grade) -> None:
    report = grade(
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n\n"
        "def twice(number):\n    raise Odd\n"
    )

    assert report.outcome is Outcome.ERROR
    assert "Odd" in failure(report)[1]


def test_a_grandchild_does_not_outlive_a_timeout(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    time_limit(exercise_folder, 1)
    note = tmp_path / "pid"

    report = grade(
        "import os, subprocess, sys\n\n\ndef twice(number):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"    open({str(note)!r}, 'w').write(str(child.pid))\n"
        "    child.wait()\n"
    )

    assert report.outcome is Outcome.TIMEOUT
    wait_for(lambda: gone(int(note.read_text())))


def test_a_daemon_does_not_outlive_a_submission_that_returns(grade: Grade, tmp_path: Path) -> None:
    note = str(tmp_path / "pid-")

    report = grade(
        "import os, signal\n\ncalls = []\n\n\ndef twice(number):\n"
        f"    calls.append({note!r} + str(len(calls)))\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            open(calls[-1], 'w').write(str(os.getpid()))\n"
        "            os.close(1)\n            os.close(2)\n            signal.pause()\n        os._exit(0)\n"
        "    while not (os.path.exists(calls[-1]) and os.path.getsize(calls[-1])):\n        pass\n"
        "    return 2 * number\n"
    )

    assert report.outcome is Outcome.PASSED
    daemons = [int(path.read_text()) for path in tmp_path.glob("pid-*")]
    assert len(daemons) == 3
    wait_for(lambda: all(gone(pid) for pid in daemons))


def test_noise_on_every_descriptor_is_no_answer(grade: Grade) -> None:
    report = grade(
        "import os\n\n\ndef twice(number):\n"
        "    for descriptor in range(3, 32):\n        try:\n            os.write(descriptor, b'passed' * 100)\n"
        "        except OSError:\n            pass\n    return 0\n"
    )

    assert report.outcome in (Outcome.NEEDS_REVIEW, Outcome.FAILED)


def test_a_forged_answer_must_still_be_right(grade: Grade) -> None:
    report = grade(
        "import os, json, struct\n\n\ndef twice(number):\n"
        "    node = {'k': 'int', 'v': '0'}\n"
        f"    trace = {EMPTY_TRACE!r}\n"
        "    answer = {'event': 'returned', 'output': node, 'arguments': {}, 'buffers': [], 'trace': trace}\n"
        "    text = json.dumps(answer).encode()\n"
        "    for descriptor in range(3, 32):\n        try:\n"
        "            os.write(descriptor, struct.pack('>4sI', b'GPT1', len(text)) + text)\n"
        "        except OSError:\n            pass\n    return 0\n"
    )

    assert report.outcome is not Outcome.PASSED


def test_a_file_over_one_mebibyte_is_rejected(grade: Grade) -> None:
    report = grade(RIGHT + "#" * (1 << 20))

    assert report.outcome is Outcome.REJECTED
    assert "1 MiB" in report.reason


@pytest.mark.parametrize(("gpu", "own"), [(None, ""), ("T4", ""), ("H100", "T4")])
def test_a_run_on_another_gpu_than_the_exercise_s_own_says_so(grade: Grade, gpu: str | None, own: str) -> None:
    assert [run.own_gpu for run in grade(RIGHT, gpu=gpu).runs] == [own]


def test_an_unknown_gpu_is_rejected_with_the_nearest_name(grade: Grade) -> None:
    report = grade(RIGHT, gpu="T44")

    assert report.outcome is Outcome.REJECTED
    assert "T4" in report.reason


def test_a_device_that_is_not_here_is_not_gradable_and_no_failure(grade: Grade) -> None:
    report = grade(RIGHT, device="cuda:7")

    assert report.outcome is Outcome.NOT_GRADABLE_HERE
    assert report.outcome.exit_code == 3
    assert "--device virtual" in report.reason


def test_the_cpu_is_used_where_the_exercise_allows_it(grade: Grade) -> None:
    report = grade(RIGHT, device="cpu")

    assert report.outcome is Outcome.PASSED
    assert not report.runs[0].virtual


def test_a_broken_exercise_is_an_internal_error_that_names_the_file(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text("def draw(seed, case):\n    return {}['number']\n")

    report = grade(RIGHT, seed=5)

    assert report.outcome is Outcome.INTERNAL_ERROR
    assert "given.py:2" in report.reason
    assert report.exercise == "lesson_1/twice_1_1"
    assert report.environment.isolation == "process"
    assert report.environment.seed == 5


def test_a_worker_that_breaks_with_the_exercises_own_solution_too_is_an_internal_error(
    grade: Grade, exercise_folder: Path
) -> None:
    with (exercise_folder / "given.py").open("a") as given:
        given.write("\n\ndef build(drawn, device):\n    return drawn['nothing']\n")

    report = grade(RIGHT)

    assert report.outcome is Outcome.INTERNAL_ERROR
    assert "KeyError: 'nothing'" in report.reason


def test_a_worker_that_says_it_broke_where_the_exercises_own_solution_runs_is_looked_at(
    grade: Grade, exercise_folder: Path
) -> None:
    (exercise_folder / "given.py").write_text(
        "class Number(int):\n    pass\n\n\n"
        "def draw(seed, case):\n    return {'number': seed + case}\n\n\n"
        "def build(drawn, device):\n    return {'number': Number(drawn['number'])}\n"
    )

    takes_it_away = (
        "import gc\nfor one in gc.get_objects():\n    if type(one) is dict and 'Number' in one and 'draw' in one:\n"
    )
    report = grade(f"{takes_it_away}        del one['Number']\n{RIGHT}")

    assert report.outcome is Outcome.NEEDS_REVIEW
    first = report.first_failure
    assert first is not None
    assert first.check == "runs"
    assert first.got.startswith("the worker broke in the middle of it; with the exercise's own solution it does not")
    assert "NameError" in report.runs[0].traceback


def test_every_scenario_has_a_run_of_its_own(grade: Grade, exercise_folder: Path) -> None:
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        for gpus in (0, 1, 2):
            manifest.write(f'[[scenario]]\nname = "{gpus} GPUs"\ngpus = {gpus}\n')
    (exercise_folder / "checks.py").write_text(
        "from gpututor.checks import value\n\nchecks = [value(lambda drawn, machine: machine.gpus)]\n"
    )

    report = grade("import torch\n\n\ndef twice(number):\n    return torch.cuda.device_count()\n")

    assert report.outcome is Outcome.PASSED
    assert [run.scenario for run in report.runs] == ["0 GPUs", "1 GPUs", "2 GPUs"]
    assert [run.device for run in report.runs] == [
        "no GPU, only the CPU",
        "cuda:0, virtual T4",
        "2 x virtual T4",
    ]


def test_what_could_be_earned_does_not_depend_on_how_far_a_run_came(grade: Grade, exercise_folder: Path) -> None:
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write('[[scenario]]\nname = "one"\n[[scenario]]\nname = "none"\ngpus = 0\n')
    (exercise_folder / "checks.py").write_text(
        "from gpututor.checks import value\n\nright = lambda drawn, machine: 2 * drawn['number']\n"
        "checks = [value(right).with_points(2), value(right, name='alone', on='no gpu').with_points(3)]\n"
    )

    passed, broken, in_the_first = grade(RIGHT), grade("def twice(:"), grade("def twice(number):\n    os.abort()\n")

    assert (passed.outcome, passed.points, passed.of) == (Outcome.PASSED, 5, 5)
    assert (broken.outcome, broken.points, broken.of) == (Outcome.ERROR, 0, 5)
    assert (in_the_first.points, in_the_first.of) == (0, 5)


def test_a_worker_that_goes_over_a_limit_while_it_leaves_is_ended() -> None:
    from gpututor.judge import runner
    from gpututor.judge.workers.worker import LimitExceeded

    class Leaving:
        killed = False

        def ask(self, question: object) -> None:
            raise LimitExceeded("processes", 100, 64)

        def kill(self) -> None:
            self.killed = True

    leaving = Leaving()
    runner._leave(leaving, leaving)  # type: ignore[arg-type]
    assert leaving.killed


def test_cancel_ends_a_grading_at_once_and_the_next_one_works(client: GradingClient, exercise_folder: Path) -> None:
    endless = GradeRequest(str(exercise_folder), "def twice(number):\n    while True: pass\n", "a.py")
    events = client.grade(endless)
    started = next(events)
    assert isinstance(started, ScenarioStarted)
    threading.Timer(0.05, client.cancel).start()

    rest = list(events)

    assert isinstance(rest[-1], GradingCancelled)
    *verdicts, end = client.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py"))
    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED
    assert any(isinstance(event, CheckFinished) for event in verdicts)


def test_a_judge_that_was_killed_is_started_again(exercise_folder: Path) -> None:
    client = GradingClient()
    try:
        client.warm()
        judge = client._judge
        assert judge is not None
        wait_for(lambda: judge.pid != 0)
        os.kill(judge.pid, signal.SIGKILL)
        wait_for(lambda: judge.poll() is not None)
        *_, end = client.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py"))
        assert isinstance(end, GradingFinished)
        assert end.report.outcome is Outcome.PASSED
    finally:
        client.close()


def test_nothing_of_the_judge_is_left_after_close(exercise_folder: Path) -> None:
    from gpututor.processes import descendants

    client = GradingClient()
    list(client.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py")))
    assert client._judge is not None
    judge = client._judge.pid
    family = [judge, *descendants(judge)]
    assert len(family) >= 2

    client.close()

    wait_for(lambda: all(gone(pid) for pid in family))
    assert not list(Path(tempfile.gettempdir()).glob(f"gpututor-{judge}-*"))


CLIENT = """
import sys
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest
list(GradingClient().grade(GradeRequest(sys.argv[1], sys.argv[2], "a.py")))
"""


def test_a_client_that_is_killed_leaves_no_process_and_no_scratch(exercise_folder: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    submission = (
        "import os, signal\n\n\ndef twice(number):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        f"            open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{os.getcwd()}}')\n"
        "            signal.pause()\n        os._exit(0)\n"
        "    while True:\n        pass\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", CLIENT, str(exercise_folder), submission])
    wait_for(lambda: note.exists() and " " in note.read_text(), 30)
    daemon, _, scratch = note.read_text().partition(" ")

    killed.kill()
    killed.wait()

    wait_for(lambda: gone(int(daemon)))
    wait_for(lambda: not Path(scratch).exists())


@pytest.mark.parametrize("outcome", list(Outcome), ids=str)
def test_every_outcome_has_an_exit_code(outcome: Outcome) -> None:
    assert outcome.exit_code in range(5)
    assert (outcome.exit_code == 0) == (outcome is Outcome.PASSED)

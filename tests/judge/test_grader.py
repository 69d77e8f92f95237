"""Gradings from end to end: each way to fail has its own verdict, and nothing survives a run."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.course.loader import load_exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled, OutputPrinted
from gpututor.grading.journal import GradingKey, entries, exercise_digest, grader_version, read_entry
from gpututor.grading.report import Outcome, Status
from gpututor.hardware.inventory import torch_version
from gpututor.processes import descendants
from tests.support.gradings import Grade, failure, gone, judge_of, time_limit
from tests.support.timeouts import wait_for
from tests.support.tiny_course import RIGHT, WRONG, append


def test_a_right_solution_passes_and_a_wrong_value_has_its_line(grade: Grade) -> None:
    report = grade(RIGHT)
    assert report.outcome is Outcome.PASSED
    assert [verdict.check for verdict in report.verdicts] == ["loads", "runs", "value"]
    assert all(verdict.status is Status.PASSED for verdict in report.verdicts)
    assert report.device == "cuda:0, virtual T4"
    assert (report.runs[0].virtual, report.runs[0].placement) == (True, "traced")
    report = grade(WRONG, seed=20)
    assert report.outcome is Outcome.FAILED
    first = report.first_failure
    assert first is not None
    assert (first.check, first.expected, first.line) == ("value", "40", 2)
    assert "20" in first.got
    assert first.why
    assert first.advice


def test_the_same_seed_draws_the_same_inputs_and_each_grading_its_own(grade: Grade) -> None:
    broken = "def twice(number):\n    raise ValueError(number)\n"
    first, second = (failure(grade(broken, seed=7)) for _ in range(2))
    assert first == second
    assert first[1].endswith("number=7)")
    assert grade(RIGHT).environment.seed != grade(RIGHT).environment.seed


ODD = (
    "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n\ndef twice(number):\n    raise Odd\n"
)
MARKUP = "[/int] [@click=app.quit]x[/]"
FAILURES = {
    "syntax": ("def twice(number):\n    return (2 *\n", Outcome.ERROR, "loads", 2, "SyntaxError: "),
    "too deep": (f"x = {'-' * 100_000}1\n{RIGHT}", Outcome.ERROR, "loads", None, "nested too deeply"),
    "another name": ("\n\ndef twize(number):\n    return 2 * number\n", Outcome.ERROR, "loads", 3, "twize"),
    "a missing module": ("\nimport torchh\n", Outcome.ERROR, "loads", 2, "ModuleNotFoundError: "),
    "markup": (f"def twice(number):\n    raise ValueError({MARKUP!r})\n", Outcome.ERROR, "runs", 2, MARKUP),
    "an exception whose text raises": (ODD, Outcome.ERROR, "runs", 7, "Odd"),
    "sys.exit": (
        "import sys\ndef twice(number):\n    sys.exit(0)\n",
        Outcome.ERROR,
        "runs",
        3,
        "SystemExit: 0, at line 3",
    ),
    "os._exit": ("import os\ndef twice(number):\n    os._exit(0)\n", Outcome.ERROR, "runs", None, "exit status 0"),
    "a crash": (
        "import os\ndef twice(number):\n    os.kill(os.getpid(), 11)\n",
        Outcome.CRASHED,
        "runs",
        None,
        "SIGSEGV",
    ),
}


@pytest.mark.parametrize(("source", "outcome", "check", "line", "words"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_its_check_and_line(
    grade: Grade, source: str, outcome: Outcome, check: str, line: int | None, words: str
) -> None:
    report = grade(source)
    failed, got, at = failure(report)
    assert (report.outcome, failed, at) == (outcome, check, line)
    assert words in got


@pytest.mark.parametrize("start", ["\ufeff", "# coding: utf-7\n", "# coding: latin-1\n", "\ufeff# coding: utf-8\n"])
def test_the_encoding_that_a_file_names_has_no_effect(grade: Grade, start: str) -> None:
    assert grade(start + RIGHT).outcome is Outcome.PASSED
    # In UTF-7 the comment would be a line of code of its own.
    assert grade(f"{start}{RIGHT}# +AAo-raise SystemExit\n").outcome is Outcome.PASSED


def test_tracebacks_have_no_paths_and_kernel_assertions_cannot_be_caught(grade: Grade) -> None:
    report = grade("import torch\n\ndef twice(number):\n    return torch.ones(2) + torch.ones(3)\n")
    text = report.runs[0].traceback
    assert '"a.py", line 4, in twice' in text
    assert "/" not in text.replace("a.py", "")
    # The device stays unusable, as on CUDA: the error shows when the caller waits for the device.
    faulty = (
        "import torch\n\ndef twice(number):\n    try:\n"
        "        torch.ones(3, device='cuda')[torch.tensor([7], device='cuda')]\n"
        "    except torch.AcceleratorError:\n        pass\n    return 2 * number\n"
    )
    report = grade(faulty)
    assert report.outcome is Outcome.ERROR
    check, got, _ = failure(report)
    assert check == "runs"
    assert "device-side assert" in got
    assert grade(RIGHT).outcome is Outcome.PASSED


def test_the_newest_line_arrives_while_a_call_goes_on(client: GradingClient, exercise_folder: Path) -> None:
    endless = "import time\ndef twice(number):\n    print('epoch 3')\n    while True:\n        time.sleep(0.01)\n"
    lines = []
    for event in client.grade(GradeRequest(str(exercise_folder), endless, "a.py")):
        if isinstance(event, OutputPrinted):
            lines.append(event.line)
            client.cancel()
    assert lines == ["epoch 3"]
    assert isinstance(event, GradingCancelled)


def test_an_endless_loop_is_stopped_at_its_line(grade: Grade, exercise_folder: Path) -> None:
    time_limit(exercise_folder, 1)
    report = grade("def twice(number):\n    while True:\n        number += 0\n")
    assert report.outcome is Outcome.TIMEOUT
    check, _, line = failure(report)
    assert check == "runs"
    assert line in (2, 3)


@pytest.mark.parametrize("mib", [1, 100])
def test_too_much_output_is_dropped_and_fails(grade: Grade, mib: int) -> None:
    report = grade(f"for _ in range({mib}):\n    print('x' * (1 << 20))\n{RIGHT}")
    check, got, _ = failure(report)
    assert (report.outcome, check) == (Outcome.FAILED, "prints")
    assert f"{mib << 10:,} KiB" in got
    assert len(report.runs[0].output) == 64 << 10
    assert report.runs[0].output_dropped_bytes > (mib << 20) - (65 << 10)


def test_a_little_output_is_in_the_report_and_none_of_the_profiler(grade: Grade) -> None:
    report = grade("def twice(number):\n    print('number is', number)\n    return 2 * number\n", seed=3)
    assert report.outcome is Outcome.PASSED
    assert report.runs[0].output == "number is 3\nnumber is 5\nnumber is 7\n"
    report = grade(
        "from torch.profiler import ProfilerActivity, profile\n\n\n"
        "def twice(number):\n    with profile(activities=[ProfilerActivity.CPU]):\n"
        "        return 2 * number\n"
    )
    assert report.outcome is Outcome.PASSED
    assert ".cpp:" not in report.runs[0].output  # PyTorch 2.11 itself warns


def test_a_profile_while_the_file_loads_is_no_suspicion(grade: Grade) -> None:
    report = grade(
        "import torch\nfrom torch.profiler import ProfilerActivity, profile\n\n\n"
        "with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):\n"
        "    torch.ones(3, device='cuda') + 1\n\n\n"
        "def twice(number):\n    return 2 * number\n"
    )
    assert (report.outcome, report.suspicions) == (Outcome.PASSED, ())


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


@pytest.mark.parametrize("text", [RIGHT + "#" * (1 << 20), f"x = '\ud800'\n{RIGHT}"], ids=["too large", "a surrogate"])
def test_a_file_that_is_no_short_text_is_rejected(grade: Grade, text: str) -> None:
    assert grade(text).outcome is Outcome.REJECTED


@pytest.mark.parametrize(("gpu", "own"), [(None, ""), ("T4", ""), ("H100", "T4")])
def test_a_run_on_another_gpu_names_the_exercises_own(grade: Grade, gpu: str | None, own: str) -> None:
    assert [run.own_gpu for run in grade(RIGHT, gpu=gpu).runs] == [own]


@pytest.mark.parametrize(
    ("options", "outcome", "words"),
    [
        ({"gpu": "T44"}, Outcome.REJECTED, "T4"),
        ({"device": "cuda:7"}, Outcome.NOT_GRADABLE_HERE, "--device virtual"),
        ({"device": "cpu"}, Outcome.PASSED, ""),
    ],
)
def test_the_device_must_exist(grade: Grade, options: dict[str, str], outcome: Outcome, words: str) -> None:
    report = grade(RIGHT, **options)
    assert report.outcome is outcome
    assert words in report.reason
    assert not any(run.virtual for run in report.runs)


def test_an_internal_error_names_exercise_isolation_and_seed(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text("def draw(seed, case):\n    return {}['number']\n")
    report = grade(RIGHT, seed=5)
    assert (report.outcome, report.exercise) == (Outcome.INTERNAL_ERROR, "lesson_1/twice_1_1")
    assert (report.environment.isolation, report.environment.seed) == ("process", 5)


def test_a_worker_that_breaks_with_the_submission_only_needs_review(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "given.py").write_text(
        "class Number(int):\n    pass\n\n\n"
        "def draw(seed, case):\n    return {'number': seed + case}\n\n\n"
        "def build(drawn, device):\n    return {'number': Number(drawn['number'])}\n"
    )
    removes_it = (
        "import gc\nfor item in gc.get_objects():\n"
        "    if type(item) is dict and 'Number' in item and 'draw' in item:\n        del item['Number']\n"
    )
    report = grade(f"{removes_it}{RIGHT}")
    assert (report.outcome, failure(report)[0]) == (Outcome.NEEDS_REVIEW, "runs")
    assert "NameError" in report.runs[0].traceback


def test_every_scenario_has_its_own_run(grade: Grade, exercise_folder: Path) -> None:
    for gpus in (0, 1, 2):
        append(exercise_folder / "exercise.toml", f'[[scenario]]\nname = "{gpus} GPUs"\ngpus = {gpus}\n')
    (exercise_folder / "checks.py").write_text(
        "from gpututor.checks import value\n\nchecks = [value(lambda drawn, machine: machine.gpus)]\n"
    )
    report = grade("import torch\n\n\ndef twice(number):\n    return torch.cuda.device_count()\n")
    assert report.outcome is Outcome.PASSED
    assert [run.scenario for run in report.runs] == ["0 GPUs", "1 GPUs", "2 GPUs"]
    assert [run.device for run in report.runs] == ["no GPU, only the CPU", "cuda:0, virtual T4", "2 x virtual T4"]


def test_possible_points_do_not_depend_on_the_failure(grade: Grade, exercise_folder: Path) -> None:
    scenarios = '[[scenario]]\nname = "one"\n[[scenario]]\nname = "none"\ngpus = 0\n'
    append(exercise_folder / "exercise.toml", scenarios)
    (exercise_folder / "checks.py").write_text(
        "from gpututor.checks import value\n\nright = lambda drawn, machine: 2 * drawn['number']\n"
        "checks = [value(right).with_points(2), value(right, name='alone', on='no gpu').with_points(3)]\n"
    )
    passed, broken, in_the_first = grade(RIGHT), grade("def twice(:"), grade("def twice(number):\n    os.abort()\n")
    assert (passed.outcome, passed.points, passed.of) == (Outcome.PASSED, 5, 5)
    assert (broken.outcome, broken.points, broken.of) == (Outcome.ERROR, 0, 5)
    assert (in_the_first.points, in_the_first.of) == (0, 5)


def test_a_worker_over_a_limit_while_it_leaves_is_ended() -> None:
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


KILLS_ITSELF = "import os, signal\n\n\ndef twice(number):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


def key_of(folder: Path, text: str) -> GradingKey:
    return GradingKey(
        hashlib.sha256(text.encode()).hexdigest(),
        load_exercise(folder).key,
        exercise_digest(folder),
        grader_version(),
        torch_version(),
        "virtual",
        "process",
        "0" * 16,
    )


def test_a_key_means_a_journal_and_a_review(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    source = f"import gc\n{RIGHT}"
    report = grade(source, device="virtual", seed=3, key=key_of(exercise_folder, source))
    assert report.outcome is Outcome.NEEDS_REVIEW
    key = key_of(exercise_folder, RIGHT)
    report = grade(RIGHT, device="virtual", seed=3, journal=str(tmp_path / "journal"), key=key)
    assert report.environment.seed == 3
    assert read_entry(tmp_path / "journal", key) == report
    key = key_of(exercise_folder, KILLS_ITSELF)
    report = grade(KILLS_ITSELF, device="virtual", journal=str(tmp_path / "journal"), key=key)
    assert report.outcome is Outcome.CRASHED
    assert read_entry(tmp_path / "journal", key) == report


@pytest.mark.parametrize(
    "wrong",
    [
        {"submission": "0" * 64},
        {"exercise_version": "0" * 64},
        {"torch": "1.0"},
        {"gpututor": "9"},
        {"isolation": "bubblewrap"},
        {"device": "virtual A100"},
    ],
)
def test_a_wrong_key_is_an_internal_error_and_not_written(
    grade: Grade, exercise_folder: Path, tmp_path: Path, wrong: dict[str, str]
) -> None:
    key = replace(key_of(exercise_folder, RIGHT), **wrong)
    report = grade(RIGHT, device="virtual", journal=str(tmp_path / "journal"), key=key)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert [name for name in wrong if f"{name} is " not in report.reason] == []
    assert list(entries(tmp_path / "journal")) == []


def test_an_internal_error_is_not_written(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    checks, journal = exercise_folder / "checks.py", tmp_path / "journal"
    before = checks.read_text()
    checks.write_text("checks = 3\n")
    report = grade(RIGHT, device="virtual", journal=str(journal), key=key_of(exercise_folder, RIGHT))
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert not journal.exists()
    checks.write_text(before)
    journal.write_text("in the way")
    report = grade(RIGHT, device="virtual", journal=str(journal), key=key_of(exercise_folder, RIGHT))
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert str(journal) in report.reason


def test_a_worker_that_is_killed_once_is_graded_again(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    """The file itself stands in for another program: it kills its process at the first run only."""
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


def test_a_worker_has_limits_for_core_dumps_files_and_memory(grade: Grade) -> None:
    report = grade(
        "import json, resource\n\n\ndef twice(number):\n"
        "    kinds = (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)\n"
        "    print(json.dumps([resource.getrlimit(kind) for kind in kinds]))\n    return 2 * number\n"
    )
    for limits in json.loads(report.runs[0].output.splitlines()[0]):
        assert all(0 <= limit != resource.RLIM_INFINITY for limit in limits)


def test_settings_of_a_scenario_are_gone_in_the_next(grade: Grade, exercise_folder: Path) -> None:
    append(exercise_folder / "exercise.toml", '[[scenario]]\nname = "first"\n[[scenario]]\nname = "second"\n')
    report = grade(
        "import torch\n\n\ndef twice(number):\n    print(torch.get_default_dtype(), torch.is_grad_enabled())\n"
        "    torch.set_default_dtype(torch.float64)\n    torch.set_grad_enabled(False)\n    return 2 * number\n"
    )
    assert [run.output.splitlines()[0] for run in report.runs] == ["torch.float32 True", "torch.float32 True"]


WAITING = 2 if sys.platform == "linux" else 1
"""Processes below the judge while it waits: the fork server and its next child, or a spare worker."""


@pytest.mark.parametrize("harm", ["killed", "without its folder"])
def test_a_waiting_worker_that_was_harmed_is_replaced(client: GradingClient, grade: Grade, harm: str) -> None:
    assert grade(RIGHT).outcome is Outcome.PASSED
    judge = judge_of(client)
    wait_for(lambda: len(descendants(judge)) == WAITING)
    if harm == "killed":
        *_, spare = descendants(judge)
        os.kill(spare, signal.SIGKILL)
        wait_for(lambda: gone(spare))
    else:
        for folder in Path(tempfile.gettempdir()).glob(f"gpututor-{judge}-*"):
            shutil.rmtree(folder)
    assert grade(RIGHT).outcome is Outcome.PASSED


def test_a_grading_leaves_no_scratch_folder(client: GradingClient, grade: Grade) -> None:
    grade("import os\n\n\ndef twice(number):\n    open('left.txt', 'w').write('x')\n    return 2 * number\n")
    scratch = Path(tempfile.gettempdir()).glob(f"gpututor-{judge_of(client)}-*")
    assert not [folder for folder in scratch if (folder / "left.txt").exists()]

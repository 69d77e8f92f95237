"""Runs of a submission: scripts, files that it writes, and limits on what the judge holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.checks import Wanted, files
from gpututor.checks.model import Call, Run
from gpututor.course.loader import load_exercise
from gpututor.errors import CourseError
from gpututor.grading.report import Outcome, Report
from gpututor.judge import runner
from gpututor.judge.isolation import Process
from gpututor.judge.runner import Opener, RunPlan
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.protocol.frames import EndOfFrames
from gpututor.trace.columns import Trace
from tests.support.check_runs import GPU
from tests.support.gradings import Grade, failure, observed, time_limit
from tests.support.tiny_course import write_files

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
SCRIPT_CHECKS = """\
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
    assert not LEFT, "each run is a new program"
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


@pytest.fixture
def grade_script(grade: Grade, exercise_folder: Path) -> Grade:
    """Make the exercise that of a script, and return its `grade`."""
    texts = {"exercise.toml": MANIFEST, "given.py": GIVEN, "checks.py": SCRIPT_CHECKS, "baseline.py": SLOW}
    write_files(exercise_folder, {**texts, "solution.py": QUICK})
    return grade


def test_a_script_is_judged_by_its_output_files_and_work(grade_script: Grade) -> None:
    report = grade_script(QUICK)
    assert report.outcome is Outcome.PASSED, report.verdicts
    assert [verdict.check for verdict in report.verdicts][:2] == ["loads", "runs"]
    lines = report.runs[0].output.splitlines()
    seed = report.environment.seed
    assert [int(line) for line in lines] == [3 * ((seed + case) % 1000 + case) for case in range(3)]


@pytest.mark.parametrize(
    ("old", "new", "check", "at"),
    [
        ("total = total.cpu()", "total = total.cpu().cuda().cpu()", "transfers", "total = total.cpu()"),
        ('"sum": total', '"sum": total + 1', "files", '"sum.pt"'),
        ("print(int(total))", "print(7)", "value", "print("),
        ("torch.full((), number * times, device=device)", "torch.zeros((), device=device)", "files", '"sum.pt"'),
        ("    sys.exit", "    for _ in range(2):\n        torch.ones(1).item()\n    sys.exit", "source", ".item()"),
    ],
)
def test_a_failure_of_a_script_has_its_line(grade_script: Grade, old: str, new: str, check: str, at: str) -> None:
    source = QUICK.replace(old, new)
    report = grade_script(source)
    failed, _, line = failure(report)
    assert (report.outcome, failed) == (Outcome.FAILED, check)
    assert line is not None
    assert at in source.splitlines()[line - 1]


def test_a_changed_baseline_runs_again(grade_script: Grade, exercise_folder: Path) -> None:
    """The judge caches a baseline's run by its text and the seed."""
    assert grade_script(SLOW, seed=7).outcome is Outcome.TOO_SLOW
    assert [grade_script(QUICK, seed=7).outcome for _ in range(2)] == [Outcome.PASSED, Outcome.PASSED]
    (exercise_folder / "baseline.py").write_text(QUICK)
    assert grade_script(QUICK, seed=7).outcome is Outcome.TOO_SLOW


def test_a_baseline_over_its_limit_is_no_mistake_of_the_course(grade_script: Grade, exercise_folder: Path) -> None:
    """A busy computer can be the cause, so a later grading may succeed."""
    time_limit(exercise_folder, 2.5)
    (exercise_folder / "baseline.py").write_text("while True:\n    pass\n")
    report = grade_script(QUICK)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert report.reason.startswith(f"{exercise_folder / 'baseline.py'}: still running after 2.5 s")
    assert "limits.wall_s" in report.reason


def test_a_status_other_than_0_is_an_error(grade_script: Grade) -> None:
    report = grade_script(QUICK.replace("return 0", "return 3"))
    check, got, line = failure(report)
    assert (report.outcome, check) == (Outcome.ERROR, "runs")
    assert got.startswith(f"SystemExit: 3, at line {line}")
    report = grade_script(QUICK.replace('"--times"', '"--time-s"'))
    assert report.outcome is Outcome.ERROR
    assert "--times" in report.runs[0].output


FILE_CHECKS = """\
import torch
from gpututor.checks import Wanted, files


def wanted(number):
    return {"weight": torch.full((2, 2), float(number)), "step": number}


def looked(value, call):
    return None if value["number"] == call.drawn["number"] else f"number is {value['number']}"


def text(value, call):
    return None if value == "done\\n" else f"it says {value!r}"


def events(value, call):
    return None if any(event["name"] == "step" for event in value) else "no event is called step"


checks = [files({%s})]
"""
TORCH = "'model.pt': Wanted('torch', like=wanted, devices='cpu')"
SAFE = "'model.safetensors': Wanted('safetensors', like=lambda number: {'weight': torch.full((2, 2), float(number))})"
ZEROS = "torch.zeros"
NUMBER = "json.dumps({'number': number})"


def write_checks(folder: Path, wanted: str) -> None:
    (folder / "checks.py").write_text(FILE_CHECKS % wanted)


def body(lines: str) -> str:
    return "import json, os, torch\ndef twice(number):\n" + "".join(f"    {line}\n" for line in lines.splitlines())


def problem(report: Report) -> str:
    """Return the text of the failed check of files."""
    check, got, _ = failure(report)
    assert (report.outcome, check) == (Outcome.FAILED, "files")
    return got


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("pass", "call 1 of 3"),
        ("open('modle.pt', 'w').write('x')", "modle.pt"),
        ("os.symlink('/etc/passwd', 'model.pt')", "link"),
        ("os.mkfifo('model.pt')", "pipe"),
        ("os.makedirs('model.pt', exist_ok=True)", "folder"),
        ("os.truncate(os.open('model.pt', os.O_CREAT | os.O_WRONLY), 100 << 20)", "104,857,600 bytes"),
        ("open('model.pt', 'w')", "empty"),
        ("open('model.pt', 'w').write('not a checkpoint')", "checkpoint"),
        (f"torch.save({{'weight': {ZEROS}(2), 'step': number}}, 'model.pt')", "shape (2,), torch.float32"),
        (f"torch.save({{'weight': {ZEROS}(2, 2), 'step': number}}, 'model.pt')", "['weight']: relative error"),
        (f"torch.save({{'weight': {ZEROS}(2, 2), 'step': -1}}, 'model.pt')", "model.pt['step'] is -1"),
        (f"torch.save({{'weight': {ZEROS}(2, 2)}}, 'model.pt')", "'step'"),
        ("torch.save({'weight': torch.full((2, 2), float(number)).cuda(), 'step': number}, 'model.pt')", "cuda:0"),
        ("torch.save({'weight': print, 'step': number}, 'model.pt')", "(print)"),
        (f"torch.save({{'weight': {ZEROS}(1).expand(1 << 40), 'step': number}}, 'model.pt')", "67,108,864"),
    ],
)
def test_a_wrong_checkpoint_fails_with_its_cause(grade: Grade, exercise_folder: Path, lines: str, words: str) -> None:
    write_checks(exercise_folder, TORCH)
    assert words in problem(grade(body(lines)))


def test_a_right_checkpoint_passes_unless_an_earlier_call_wrote_it(grade: Grade, exercise_folder: Path) -> None:
    write_checks(exercise_folder, TORCH)
    save = "torch.save({'weight': torch.full((2, 2), float(number)), 'step': number}, 'model.pt')"
    report = grade(body(save))
    assert report.outcome is Outcome.PASSED, report.first_failure
    lines = f"if not os.path.exists('seen'):\n    {save}\nopen('seen', 'w').close()"
    assert "call 2 of 3" in problem(grade(body(lines)))


@pytest.mark.parametrize(
    "save",
    [
        "torch.save(Bomb(), 'model.pt')",
        "pickle.dump(Bomb(), open('model.pt', 'wb'), protocol=2)",
        "pickle.dump(Bomb(), open('model.pt', 'wb'))",
    ],
)
def test_a_hostile_pickle_does_not_run(grade: Grade, exercise_folder: Path, tmp_path: Path, save: str) -> None:
    write_checks(exercise_folder, TORCH)
    command = f"touch {tmp_path / 'touched'}"
    bomb = f"class Bomb:\n    def __reduce__(self):\n        return os.system, ({command!r},)\n"
    problem(grade(f"import os, pickle, torch\n{bomb}def twice(number):\n    {save}\n"))
    assert not (tmp_path / "touched").exists()


def test_safetensors_are_read(grade: Grade, exercise_folder: Path) -> None:
    write_checks(exercise_folder, SAFE)
    write = """
header = json.dumps({"weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, OFFSET]}}).encode()
data = torch.full((2, 2), float(number)).numpy().tobytes()
with open("model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + data)
""".strip()
    assert grade(body(write.replace("OFFSET", "16"))).outcome is Outcome.PASSED
    for wrong in (write.replace("OFFSET", "99"), "open('model.safetensors', 'wb').write(b'\\xff' * 99)"):
        assert "safetensors" in problem(grade(body(wrong)))


@pytest.mark.parametrize(
    ("wanted", "right", "wrong", "words"),
    [
        ("json', look=looked", NUMBER, "'{\"number\": 0}'", "number is 0"),
        ("json', look=looked", NUMBER, "'[1]'", "structure"),
        ("json', look=looked", NUMBER, "'['", "JSON"),
        ("json', look=looked", NUMBER, "'[' * 99_999", "JSON"),
        ("json'", "'[1]'", "'[' * 99 + ']' * 99", "nested"),
        ("text', look=text", "'done\\n'", "'undone\\x1b'", "'undone\\x1b'"),
        ("trace', look=events", "json.dumps({'traceEvents': [{'name': 'step'}]})", "'{}'", "`traceEvents`"),
    ],
)
def test_texts_are_read_by_the_judge(
    grade: Grade, exercise_folder: Path, wanted: str, right: str, wrong: str, words: str
) -> None:
    write_checks(exercise_folder, f"'a.json': Wanted('{wanted})")
    report = grade(body(f"open('a.json', 'w').write({right})"))
    assert report.outcome is Outcome.PASSED, report.first_failure
    assert words in problem(grade(body(f"open('a.json', 'w').write({wrong})")))


class BrokenPool:
    """A pool whose workers end at their first request; it is its own worker and channel."""

    def __init__(self) -> None:
        self.taken = self.released = 0
        self.channel = self

    def take(self) -> BrokenPool:
        self.taken += 1
        return self

    def release(self, worker: object) -> None:
        self.released += 1

    def begin(self, *_: object) -> None: ...

    def has_unread(self) -> bool:
        return False

    def send(self, *_: object) -> None:
        raise EndOfFrames


def test_a_file_that_breaks_its_reader_is_refused(exercise_folder: Path) -> None:
    """No such file is known, so the reader is made to end; the next file gets a new one."""
    pool = BrokenPool()
    keys = [(name, "torch") for name in ("a", "b", "c")]
    call = Call({}, {}, None, Trace(), files={"a": b"x", "b": b"y", "c": b""})
    plan = RunPlan(files=("a", "b", "c"), opens=tuple(keys))
    run = Run(GPU, (call,), "", "twice", ((call,),))
    opened = Opener(pool, load_exercise(exercise_folder)).read_output_files(plan, run).calls[0].opened  # type: ignore[arg-type]
    assert [key for key, file in opened.items() if file.refusal] == keys[:2] == list(opened)
    assert (pool.taken, pool.released) == (2, 2)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((name, Wanted("text")) for name in ("../x", "", "*.pt", ".stack")),
        ("model.pt", Wanted("pickle")),  # type: ignore[arg-type]
        ("model.json", Wanted("json", devices="cpu")),
    ],
)
def test_names_with_folders_unknown_formats_and_useless_devices_are_refused(name: str, wanted: Wanted) -> None:
    with pytest.raises(CourseError):
        files({name: wanted})


RETURNS_MUCH = "import torch\n\n\ndef twice(number):\n    return torch.ones(1000)\n"
WRITES_MUCH = (
    "import torch\n\n\ndef twice(number):\n"
    "    torch.save(torch.zeros(1).expand(1000).contiguous(), 'x.pt')\n    return 0\n"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(SpawnedWorkers(Process()))
    yield pool
    pool.kill_all()


@pytest.fixture
def worker(pool: WorkerPool) -> Iterator[Worker]:
    worker = pool.take()
    yield worker
    pool.release(worker)


@pytest.mark.long
def test_all_answers_of_a_run_together_are_bounded(
    worker: Worker, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "KEPT_BYTES", 20_000)
    failures = [observed(worker, exercise_folder, RETURNS_MUCH, RunPlan(repeats=count)).failure for count in (3, 6, 3)]
    assert failures[0] is failures[2] is None
    assert failures[1] is not None
    assert failures[1].outcome is Outcome.FAILED


@pytest.mark.long
def test_all_opened_files_of_a_run_together_are_bounded(
    worker: Worker, pool: WorkerPool, exercise_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = RunPlan(repeats=3, files=("x.pt",), opens=(("x.pt", "torch"),))
    observation = observed(worker, exercise_folder, WRITES_MUCH, plan)
    assert observation.failure is None
    monkeypatch.setattr(runner, "KEPT_BYTES", 10_000)
    read = Opener(pool, load_exercise(exercise_folder)).read_output_files(plan, observation.run)
    refusals = [call.opened["x.pt", "torch"].refusal for calls in read.repeated for call in calls]
    assert [bool(refusal) for refusal in refusals] == [False, False, True]

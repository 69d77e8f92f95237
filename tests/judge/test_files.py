"""Files that a submission writes: what learners are told of them, and that opening them harms nobody."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.checks import Wanted, files
from gpututor.checks.model import Call, Run
from gpututor.course.loader import load_exercise
from gpututor.errors import CourseError
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome, Report
from gpututor.judge.runner import Opener, RunPlan
from gpututor.protocol.frames import EndOfFrames
from gpututor.trace.columns import Trace
from tests.support.check_runs import GPU
from tests.support.gradings import Grade

CHECKS = """\
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
RIGHT = """
import torch
def twice(number):
    torch.save({"weight": torch.full((2, 2), float(number)), "step": number}, "model.pt")
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """Many submissions, or two workers for one: with a fork server they take a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(workers="fork server" if sys.platform == "linux" else "spare")
        yield client
        client.close()


def setting(folder: Path, wanted: str) -> None:
    (folder / "checks.py").write_text(CHECKS % wanted)


def told(report: Report) -> str:
    first = report.first_failure
    assert first is not None
    assert (report.outcome, first.check) == (Outcome.FAILED, "files"), first
    return first.got


def body(lines: str) -> str:
    return "import json, os, torch\ndef twice(number):\n" + "".join(f"    {line}\n" for line in lines.splitlines())


def test_a_right_checkpoint_passes(grade: Grade, exercise_folder: Path) -> None:
    setting(exercise_folder, TORCH)
    report = grade(RIGHT)
    assert report.outcome is Outcome.PASSED, report.first_failure


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("pass", "no file was written (call 1 of 3"),
        ("open('modle.pt', 'w').write('x')", "none was written; there is only modle.pt"),
        ("os.symlink('/etc/passwd', 'model.pt')", "model.pt is a link"),
        ("os.mkfifo('model.pt')", "model.pt is a pipe"),
        ("os.makedirs('model.pt', exist_ok=True)", "model.pt is a folder"),
        ("os.truncate(os.open('model.pt', os.O_CREAT | os.O_WRONLY), 100 << 20)", "a file of 104,857,600 bytes"),
        ("open('model.pt', 'w')", "model.pt is empty"),
        ("open('model.pt', 'w').write('not a checkpoint')", "it is no checkpoint as torch.save writes it"),
        ("torch.save({'weight': torch.zeros(2), 'step': number}, 'model.pt')", "a tensor of shape (2,), torch.float32"),
        ("torch.save({'weight': torch.zeros(2, 2), 'step': number}, 'model.pt')", "model.pt['weight']: relative error"),
        ("torch.save({'weight': torch.zeros(2, 2), 'step': -1}, 'model.pt')", "model.pt['step'] is -1 instead of"),
        ("torch.save({'weight': torch.zeros(2, 2)}, 'model.pt')", "model.pt is a dict without 'step'"),
        (
            "torch.save({'weight': torch.full((2, 2), float(number)).cuda(), 'step': number}, 'model.pt')",
            "model.pt holds tensors of cuda:0",
        ),
        ("torch.save({'weight': print, 'step': number}, 'model.pt')", "pickled code (print)"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said(grade: Grade, exercise_folder: Path, lines: str, words: str) -> None:
    setting(exercise_folder, TORCH)
    assert words in told(grade(body(lines)))


def test_a_file_of_an_earlier_call_is_not_this_ones(grade: Grade, exercise_folder: Path) -> None:
    setting(exercise_folder, TORCH)
    once = RIGHT.replace("    torch.save", "    if not os.path.exists('seen'):\n        torch.save").replace(
        "import torch", "import os, torch"
    )
    assert "there is only seen (call 2 of 3" in told(grade(once + "    open('seen', 'w').close()\n"))


def test_a_hostile_pickle_runs_nowhere(grade: Grade, exercise_folder: Path, tmp_path: Path) -> None:
    setting(exercise_folder, TORCH)
    touched = tmp_path / "touched"
    hostile = f"""
import os, pickle, torch
class Bomb:
    def __reduce__(self):
        return os.system, ("touch {touched}",)
def twice(number):
    SAVE
"""
    code = "pickled code (posix.system)"
    for save, words in (
        ("torch.save(Bomb(), 'model.pt')", code),
        ("pickle.dump(Bomb(), open('model.pt', 'wb'), protocol=2)", code),
        ("pickle.dump(Bomb(), open('model.pt', 'wb'))", "gpututor unpickles nothing else"),
    ):
        assert words in told(grade(hostile.replace("SAVE", save)))
    assert not touched.exists()


def test_a_checkpoint_that_would_fill_the_memory_is_refused(grade: Grade, exercise_folder: Path) -> None:
    setting(exercise_folder, TORCH)
    large = "torch.save({'weight': torch.zeros(1).expand(1 << 40), 'step': number}, 'model.pt')"
    assert "at most 67,108,864 are compared" in told(grade(body(large)))


def test_safetensors_are_read(grade: Grade, exercise_folder: Path) -> None:
    setting(exercise_folder, SAFE)
    write = """
header = json.dumps({"weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, OFFSET]}}).encode()
data = torch.full((2, 2), float(number)).numpy().tobytes()
with open("model.safetensors", "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + data)
""".strip()
    assert grade(body(write.replace("OFFSET", "16"))).outcome is Outcome.PASSED
    assert "it is no safetensors file" in told(grade(body(write.replace("OFFSET", "99"))))
    assert "it is no safetensors file" in told(grade(body("open('model.safetensors', 'wb').write(b'\\xff' * 99)")))


@pytest.mark.parametrize(
    ("wanted", "right", "wrong", "words"),
    [
        ("'a.json': Wanted('json', look=looked)", "json.dumps({'number': number})", "'{\"number\": 0}'", "number is 0"),
        ("'a.json': Wanted('json', look=looked)", "json.dumps({'number': number})", "'[1]'", "expected structure"),
        ("'a.json': Wanted('json', look=looked)", "json.dumps({'number': number})", "'['", "no JSON"),
        ("'a.json': Wanted('json', look=looked)", "json.dumps({'number': number})", "'[' * 99_999", "no JSON"),
        ("'a.json': Wanted('json')", "'[1]'", "'[' * 99 + ']' * 99", "nested too deeply"),
        ("'a.json': Wanted('text', look=text)", "'done\\n'", "'undone\\x1b'", "it says 'undone\\x1b'"),
        (
            "'a.json': Wanted('trace', look=events)",
            "json.dumps({'traceEvents': [{'name': 'step'}]})",
            "'{}'",
            "no list of `traceEvents`",
        ),
    ],
)
def test_texts_are_read_by_the_judge(
    grade: Grade, exercise_folder: Path, wanted: str, right: str, wrong: str, words: str
) -> None:
    setting(exercise_folder, wanted)
    report = grade(body(f"open('a.json', 'w').write({right})"))
    assert report.outcome is Outcome.PASSED, report.first_failure
    assert words in told(grade(body(f"open('a.json', 'w').write({wrong})")))


class _Pool:
    """Its workers end as soon as they are asked something."""

    def __init__(self) -> None:
        self.taken = self.released = 0
        self.channel = self

    def take(self) -> _Pool:
        self.taken += 1
        return self

    def release(self, worker: object) -> None:
        self.released += 1

    def begin(self, *_: object) -> None: ...

    def has_unread(self) -> bool:
        return False

    def send(self, *_: object) -> None:
        raise EndOfFrames("the worker is gone")


def test_a_file_that_ends_whoever_opens_it_is_a_verdict(exercise_folder: Path) -> None:
    """Nothing is known that does so: the worker that opens is made to end, and the next file gets a new one."""
    pool = _Pool()
    exercise = load_exercise(exercise_folder)
    call = Call({}, {}, None, Trace(), files={"a": b"x", "b": b"y", "c": b""})
    plan = RunPlan(files=("a", "b", "c"), opens=(("a", "torch"), ("b", "torch"), ("c", "torch")))
    run = Run(GPU, (call,), "", "twice", ((call,),))
    opened = Opener(pool, exercise).read_output_files(plan, run).calls[0].opened  # type: ignore[arg-type]
    words = "whoever opened it crashed"
    assert {key: one.refusal for key, one in opened.items()} == {("a", "torch"): words, ("b", "torch"): words}
    assert (pool.taken, pool.released) == (2, 2)


@pytest.mark.parametrize("name", ["../x", "", "*.pt", ".stack"])
def test_names_with_folders_and_patterns_are_refused(name: str) -> None:
    with pytest.raises(CourseError, match="not a file's name"):
        files({name: Wanted("text")})


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(CourseError, match="how='pickle'"):
        files({"model.pt": Wanted("pickle")})  # type: ignore[arg-type]
    with pytest.raises(CourseError, match="names no devices"):
        files({"model.json": Wanted("json", devices="cpu")})

"""The judge's server: it collects garbage between gradings, and logs only faults of gradings that are wanted."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import io
import json
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gpututor.errors import CourseError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import CheckFinished, GradeRequest, GradingCancelled, GradingFinished, ScenarioStarted
from gpututor.grading.report import Outcome
from gpututor.judge import __main__ as judge
from gpututor.judge.isolation import Process
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.judge.workers.worker import WorkerLost
from gpututor.protocol.frames import read_frame, write_frame
from tests.support.gradings import USERS_SHELL, Grade
from tests.support.tiny_course import RIGHT


def a_server(answers: io.BytesIO | None = None) -> judge.JudgeServer:
    return judge.JudgeServer(io.BytesIO(), answers or io.BytesIO(), SpawnedWorkers(Process()))


class Enough(Exception):
    """Ends a judge that would run forever."""


class Cycle:
    """Refers to itself, so only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def grade_twice(monkeypatch: pytest.MonkeyPatch, grade: Callable[[int], None]) -> None:
    """Let a server's loop call `grade` with 1 and 2, without a judge."""
    server = a_server()

    def grade_or_end(number: int, request: GradeRequest) -> None:
        grade(number)
        if number == 2:
            raise Enough

    monkeypatch.setattr(server, "_grade", grade_or_end)
    monkeypatch.setattr(server, "_listen", lambda: None)
    monkeypatch.setattr(server._pool, "warm", lambda: None)
    monkeypatch.setattr(judge, "adopt_orphans", lambda: None)
    monkeypatch.setattr(judge, "sweep_scratch", lambda: None)
    monkeypatch.setitem(sys.modules, "gpututor.judge.grader", ModuleType("judge"))  # it imports torch
    monkeypatch.setattr(gc, "freeze", lambda: None)  # this process's objects are not the judge's
    for number in (1, 2):
        server._queue.put((number, GradeRequest("", "", "a.py")))
    gc.disable()
    try:
        with pytest.raises(Enough):
            server.serve()
    finally:
        gc.enable()


def test_garbage_of_a_grading_is_collected_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[weakref.ref[Cycle]] = []
    survived: list[bool] = []

    def grade(number: int) -> None:
        survived.extend(reference() is not None for reference in left)
        left.append(weakref.ref(Cycle()))

    grade_twice(monkeypatch, grade)
    assert survived == [False]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps free memory")
def test_free_memory_of_a_grading_is_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    resident: list[int] = []
    kept: list[bytes] = []

    def grade(number: int) -> None:
        if number == 1:
            blocks = [bytes(1000) for _ in range(100_000)]
            kept.extend(blocks[::500])  # so that the heap cannot just end earlier
            del blocks
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)

    grade_twice(monkeypatch, grade)
    assert resident[0] - resident[1] > 50


def test_collections_skip_the_objects_of_late_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    freezer = judge.Freezer()
    try:
        freezer.freeze()
        frozen = gc.get_freeze_count()
        late = [ModuleType(f"late_{number}") for number in range(freezer.MANY)]
        for module in late[1:]:
            monkeypatch.setitem(sys.modules, module.__name__, module)
        freezer.freeze_imports()
        assert gc.get_freeze_count() == frozen
        monkeypatch.setitem(sys.modules, late[0].__name__, late[0])
        freezer.freeze_imports()
        assert gc.get_freeze_count() >= frozen + len(late)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("end_of_input", [False, True], ids=["cancelled", "the app is gone"])
@pytest.mark.parametrize("error", [CourseError("broken", ""), WorkerLost("gone", "")], ids=repr)
def test_errors_of_a_stopped_grading_are_not_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    end_of_input: bool,
) -> None:
    """The grading hears a cancel or the end of input, then breaks: its worker was killed."""
    requests, answers, gradings = io.BytesIO(), io.BytesIO(), []
    if not end_of_input:
        write_frame(requests, {"op": "cancel", "id": 3})
    requests.seek(0)
    server = judge.JudgeServer(requests, answers, SpawnedWorkers(Process()))

    def grade(*_: object, **__: object) -> None:
        gradings.append(1)
        with pytest.raises(SystemExit):
            server._listen()
        raise error

    monkeypatch.setattr("gpututor.judge.grader.grade", grade)
    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setattr(server._pool, "kill_all", lambda: None)
    server._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
    assert (capfd.readouterr().err, gradings) == ("", [1])
    answers.seek(0)
    assert read_frame(answers).header == {"id": 3, "event": "cancelled"}


def test_errors_of_other_gradings_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise CourseError("broken", "")

    monkeypatch.setattr("gpututor.judge.grader.grade", broken)
    a_server()._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
    assert "CourseError" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to")
def test_a_full_disk_is_reported_without_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "trace.json"))

    answers = io.BytesIO()
    monkeypatch.setattr("gpututor.judge.grader.grade", broken)
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr("sys.stderr", full)
        a_server(answers)._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    answers.seek(0)
    report = read_frame(answers).header["report"]
    assert report["outcome"] == "internal error"
    assert str(tmp_path) in report["reason"]


def test_cancel_ends_a_grading_and_the_judge_lives_on(client: GradingClient, exercise_folder: Path) -> None:
    endless = GradeRequest(str(exercise_folder), "def twice(number):\n    while True: pass\n", "a.py")
    events = client.grade(endless)
    assert isinstance(next(events), ScenarioStarted)
    process = client._judge
    assert process is not None
    threading.Timer(0.05, client.cancel).start()
    assert isinstance(list(events)[-1], GradingCancelled)
    assert client._judge is process
    assert process.poll() is None
    *verdicts, end = client.grade(GradeRequest(str(exercise_folder), RIGHT, "a.py"))
    assert isinstance(end, GradingFinished)
    assert end.report.outcome is Outcome.PASSED
    assert any(isinstance(event, CheckFinished) for event in verdicts)


def test_a_worker_has_no_variable_of_the_users_shell(grade: Grade) -> None:
    """The judge of these tests was started with the variables of `USERS_SHELL`."""
    report = grade(
        "import json, os\n\n\ndef twice(number):\n    print(json.dumps(dict(os.environ)))\n    return 2 * number\n"
    )
    seen = json.loads(report.runs[0].output.splitlines()[0])
    assert not {"GPUTUTOR_SECRET", "GPUTUTOR_HOME"} & seen.keys()
    # The virtual GPU adds its own folder, for the processes that a submission starts.
    assert USERS_SHELL["PYTHONPATH"] not in seen.get("PYTHONPATH", "")
    assert Path(seen["HOME"]).parent == Path(tempfile.gettempdir())

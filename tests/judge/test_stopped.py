"""A grading that is stopped is nobody's fault: nothing of it is in the log, and it is not begun once more."""

from __future__ import annotations

import contextlib
import errno
import io
from pathlib import Path

import pytest

from gpututor.errors import CourseError
from gpututor.grading.events import GradeRequest
from gpututor.judge.__main__ import Server
from gpututor.judge.isolation import Process
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.judge.workers.worker import WorkerLost
from gpututor.protocol.frames import read_frame, write_frame


class Stopping:
    """Grades by hearing that it is to stop, and then breaking: its worker was killed."""

    def __init__(self, error: Exception, end_of_input: bool) -> None:
        requests = io.BytesIO()
        if not end_of_input:
            write_frame(requests, {"op": "cancel", "id": 3})
        requests.seek(0)
        self.answers = io.BytesIO()
        self.server = Server(requests, self.answers, SpawnedWorkers(Process()))
        self.error = error
        self.gradings = 0

    def grade(self, *_: object, **__: object) -> None:
        self.gradings += 1
        with pytest.raises(SystemExit):
            self.server._listen()
        raise self.error


@pytest.mark.parametrize("end_of_input", [False, True], ids=["cancelled", "the app is gone"])
@pytest.mark.parametrize("error", [CourseError("baseline.py does not run", ""), WorkerLost("gone", "")], ids=repr)
def test_what_breaks_in_a_grading_that_was_stopped_is_not_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    end_of_input: bool,
) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    stopping = Stopping(error, end_of_input)
    monkeypatch.setattr("gpututor.judge.grader.grade", stopping.grade)
    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setattr(stopping.server._pool, "kill_all", lambda: None)
    stopping.server._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
    assert capfd.readouterr().err == ""
    assert stopping.gradings == 1
    stopping.answers.seek(0)
    assert read_frame(stopping.answers).header == {"id": 3, "event": "cancelled"}


def test_what_breaks_in_a_grading_that_is_wanted_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise CourseError("baseline.py does not run", "")

    monkeypatch.setattr("gpututor.judge.grader.grade", broken)
    Server(io.BytesIO(), io.BytesIO(), SpawnedWorkers(Process()))._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
    assert "CourseError: baseline.py does not run" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to")
def test_a_full_disk_is_told_though_no_log_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "trace.json"))

    answers = io.BytesIO()
    monkeypatch.setattr("gpututor.judge.grader.grade", broken)
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr("sys.stderr", full)
        Server(io.BytesIO(), answers, SpawnedWorkers(Process()))._grade(3, GradeRequest(str(tmp_path), "", "a.py"))
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    answers.seek(0)
    report = read_frame(answers).header["report"]
    assert report["outcome"] == "internal error"
    assert "no space left" in report["reason"]
    assert str(tmp_path) in report["reason"]

"""`gpututor watch`: grades at the start and at each save, obeys typed letters, and leaves a terminal cleanly."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.cli.terminal import LineReader
from gpututor.cli.watch import CLEAR, Watcher, WatchOptions
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.errors import GradingError
from gpututor.progress.store import ProgressStore
from tests.support.command_line import on_a_terminal, read_to_end, read_until
from tests.support.scripted_client import ScriptedClient
from tests.support.timeouts import PATIENCE_S, wait_for
from tests.support.tiny_course import RIGHT, WRONG


@dataclass
class Session:
    """A watcher in a thread, with a pipe as keyboard."""

    options: WatchOptions
    client: ScriptedClient
    output: io.StringIO
    keys: int
    codes: list[int] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.options.workspace.path_of(self.options.course.exercises[0])

    def type(self, words: str) -> None:
        os.write(self.keys, words.encode())

    def printed(self) -> str:
        return self.output.getvalue()

    def until_printed(self, text: str, times: int = 1) -> None:
        wait_for(lambda: self.printed().count(text) >= times, what=f"{text!r} in\n{self.printed()}")


@pytest.fixture
def session(course_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    output, really_print = io.StringIO(), print  # pytest's own capture may not be read while another thread prints
    monkeypatch.setattr(builtins, "print", lambda *words, **how: really_print(*words, **{**how, "file": output}))
    course = load_course(course_folder)
    workspace, _ = make_workspace(tmp_path / "mine", course)
    client = ScriptedClient()
    reading, writing = os.pipe()
    session = Session(WatchOptions(course, workspace), client, output, writing)
    watcher = Watcher(session.options, client)

    def watch() -> None:
        session.codes.append(watcher.watch(course.exercises[0], LineReader(reading)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield session
    client.cancel()
    with contextlib.suppress(OSError):
        session.type("q\n")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    os.close(reading)


def attempts(key: str = "lesson_1/twice_1_1") -> list[str]:
    with contextlib.closing(ProgressStore(paths.progress_file("tiny"))) as store:
        return [str(attempt.report.outcome) for attempt in store.attempts(key)]


def test_each_save_is_graded_and_recorded(session: Session) -> None:
    session.until_printed(f"Watching {session.file}: saving it grades it again.")
    assert "      got       a result on cpu\n" in session.printed(), "as `grade` says it"
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")
    wait_for(lambda: attempts() == ["failed", "passed"], what="the attempts")
    assert all(request.recording_folder for request in session.client.requests), "as `grade` records it"
    session.until_printed("Next, with n and Enter: 1.2 Twice 2.")
    session.until_printed("`gpututor diff 1.1` compares your file with the solution.")
    assert [request.submission for request in session.client.requests][1:] == [RIGHT]


def test_typed_letters_are_obeyed(session: Session) -> None:
    session.until_printed("n next, h hint, r again, q quit")
    session.type("h\n")
    session.until_printed("Hint 1 of 3")
    session.type("R\n")
    session.until_printed("✗ Failed", times=2)
    session.type("what\n")
    session.until_printed("n next, h hint, r again, q quit", times=3)
    session.type("n\nn\nn\n")
    session.until_printed("2.2 Twice 2")
    session.type("n\n")
    session.until_printed("This is the last exercise of the course.")
    session.type("q\n")
    wait_for(lambda: session.codes == [0], what="the end")
    with contextlib.closing(ProgressStore(paths.progress_file("tiny"))) as store:
        assert (store.hints_used("lesson_1/twice_1_1"), store.exercise_opened_last()) == (1, "lesson_2/twice_2_2")
        assert store.current_exercise() is None


def test_a_newer_save_stops_the_running_grading(session: Session) -> None:
    session.until_printed("✗ Failed")
    session.client.holds = True
    session.file.write_text(WRONG)
    wait_for(lambda: len(session.client.requests) == 2, what="the second run")
    session.client.holds = False
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")
    assert "  stopped\n" in session.printed()
    wait_for(lambda: attempts() == ["failed", "passed"], what="the attempts: what was stopped is none")


def test_many_saves_at_once_are_graded_once(session: Session) -> None:
    session.until_printed("✗ Failed")
    for number in range(10):
        session.file.write_text(f"{RIGHT}# {number}\n")
    session.until_printed("✓ Passed")
    assert session.client.requests[-1].submission == f"{RIGHT}# 9\n"
    assert len(session.client.requests) == 2


def test_the_watch_continues_whatever_happens_to_the_file_or_the_grading(session: Session) -> None:
    session.until_printed("✗ Failed")
    new = session.file.with_suffix(".new")
    new.write_text(RIGHT)
    new.replace(session.file)
    session.until_printed("✓ Passed")
    assert "is gone" not in session.printed()
    session.file.unlink()
    session.until_printed(f"{session.file} is gone.")
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed", times=2)
    assert f"{session.file.name} is back." in session.printed()
    session.file.write_bytes(b"\xff\xfe")
    session.until_printed("UTF-8")
    session.client.breaks = GradingError("The judge could not be started.", "Run `gpututor doctor`.")
    session.file.write_text(WRONG)
    session.until_printed("Run `gpututor doctor`.")
    session.client.breaks = ValueError("a bug")
    session.type("r\n")
    session.until_printed("ValueError('a bug')")
    session.client.breaks = None
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed", times=3)


INTERRUPTED = (130, -signal.SIGINT)
"""Exit codes after Ctrl-C. Python ends by the signal if it interrupted an `exec`, as dataclasses use."""


def test_a_learner_fails_passes_continues_and_quits_on_a_terminal(course_folder: Path, tmp_path: Path) -> None:
    course = load_course(course_folder)
    workspace, _ = make_workspace(tmp_path / "mine", course)
    file = workspace.path_of(course.exercises[0])
    folders = ["--course", str(course_folder), "--workspace", str(workspace.folder)]
    with on_a_terminal("watch", "1.1", *folders) as (process, terminal):
        assert "NotImplementedError" in read_until(terminal, "q quit: ")
        file.write_text(RIGHT)
        seen = read_until(terminal, "Next, with n and Enter: 1.2 Twice 2.")
        assert f"{CLEAR}1.1 Twice 1\n" in seen
        assert "✓ Passed" in seen
        os.write(terminal, b"n\n")
        read_until(terminal, f"{CLEAR}1.2 Twice 2\n")  # the prompt of before may come first
        read_until(terminal, "q quit: ")
        modules = Path(f"/proc/{process.pid}/maps")
        if modules.exists():
            assert "torch" not in modules.read_text(), "the front end never imports torch"
        os.write(terminal, b"q\n")
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("key", "codes"), [(b"\x03", INTERRUPTED), (b"\x04", (0,))], ids=["ctrl-c", "ctrl-d"])
def test_ctrl_c_and_ctrl_d_quit_without_a_traceback(
    course_folder: Path, tmp_path: Path, key: bytes, codes: tuple[int, ...]
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    folders = ["--course", str(course_folder), "--workspace", str(tmp_path / "mine")]
    with on_a_terminal("watch", "1.1", *folders) as (process, terminal):
        read_until(terminal, "1.1 Twice 1\n")
        os.write(terminal, key)
        seen = read_to_end(terminal)
        assert process.wait(PATIENCE_S) in codes, seen
        assert "Traceback" not in seen


def test_the_app_does_not_replace_a_missing_workspace(course_folder: Path, tmp_path: Path) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    (tmp_path / "mine").rename(tmp_path / "moved")
    with on_a_terminal("--course", str(course_folder)) as (process, terminal):
        read_until(terminal, str(tmp_path / "mine"))
        assert process.wait(PATIENCE_S) == 2


@pytest.mark.long
def test_without_a_terminal_it_watches_until_a_signal(course_folder: Path, tmp_path: Path) -> None:
    course = load_course(course_folder)
    workspace, _ = make_workspace(tmp_path / "mine", course)
    workspace.write(course.exercises[0], RIGHT)
    words = ["watch", "1.1", "--course", str(course_folder), "--workspace", str(workspace.folder)]
    command = [sys.executable, "-m", "gpututor.cli.main", *words]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith("Watching"):
            if seen.count("Watching") == 2:
                break
            workspace.write(course.exercises[0], RIGHT + "# saved again\n")
    assert seen.count("✓ Passed") == 2
    assert not re.search("\x1b", seen)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) in INTERRUPTED
    process.stdout.close()

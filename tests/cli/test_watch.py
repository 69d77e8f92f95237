"""`watch` grades a file at the start and whenever it is saved, and does what is typed."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.cli.terminal import LineReader
from gpututor.cli.watch import Watcher, WatchOptions
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.errors import GradingError
from gpututor.progress.store import ProgressStore
from tests.support.scripted_client import ScriptedClient
from tests.support.timeouts import PATIENCE_S
from tests.support.tiny_course import RIGHT

WRONG = "def twice(number):\n    return number\n"


def until(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@dataclass
class Session:
    """A watcher in a thread, with a pipe for a keyboard."""

    options: WatchOptions
    client: ScriptedClient
    said: io.StringIO
    keys: int
    codes: list[int] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.options.workspace.path_of(self.options.course.exercises[0])

    def type(self, words: str) -> None:
        os.write(self.keys, words.encode())

    def printed(self) -> str:
        return self.said.getvalue()

    def until_printed(self, text: str, times: int = 1) -> None:
        until(lambda: self.printed().count(text) >= times, f"{text!r} in\n{self.printed()}")


@pytest.fixture
def session(course_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    said, really_print = io.StringIO(), print  # pytest's own capture may not be read while another thread prints
    monkeypatch.setattr(builtins, "print", lambda *words, **how: really_print(*words, **{**how, "file": said}))
    course = load_course(course_folder)
    workspace, _ = make_workspace(tmp_path / "mine", course)
    client = ScriptedClient()
    reading, writing = os.pipe()
    session = Session(WatchOptions(course, workspace), client, said, writing)
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
    store = ProgressStore(paths.progress_file("tiny"))
    outcomes = [str(attempt.report.outcome) for attempt in store.attempts(key)]
    store.close()
    return outcomes


def test_a_file_is_graded_at_the_start_and_at_every_save_and_each_is_recorded(session: Session) -> None:
    session.until_printed(f"Watching {session.file}: saving it grades it again.")
    assert "      got       a result on cpu\n" in session.printed(), "as `grade` says it"
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")
    until(lambda: attempts() == ["failed", "passed"], "the attempts")
    assert all(request.recording_folder for request in session.client.requests), "as `grade` records it"
    session.until_printed("n and Enter go on to 1.2 Twice 2.")
    assert [request.submission for request in session.client.requests][1:] == [RIGHT]


def test_what_is_typed_is_done(session: Session) -> None:
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
    until(lambda: session.codes == [0], "the end")
    store = ProgressStore(paths.progress_file("tiny"))
    assert (store.hints_used("lesson_1/twice_1_1"), store.exercise_opened_last()) == (1, "lesson_2/twice_2_2")
    assert store.current_exercise() is None, "where the app opens is the app's"
    store.close()


def test_a_newer_save_ends_the_run_that_is_on(session: Session) -> None:
    session.until_printed("✗ Failed")
    session.client.holds = True
    session.file.write_text(WRONG)
    until(lambda: len(session.client.requests) == 2, "the second run")
    session.client.holds = False
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")
    assert "  stopped\n" in session.printed()
    until(lambda: attempts() == ["failed", "passed"], "the attempts: what was stopped is none")


def test_many_saves_at_once_are_one_run(session: Session) -> None:
    session.until_printed("✗ Failed")
    for number in range(10):
        session.file.write_text(f"{RIGHT}# {number}\n")
    session.until_printed("✓ Passed")
    assert session.client.requests[-1].submission == f"{RIGHT}# 9\n"
    assert len(session.client.requests) == 2


def test_a_file_that_another_one_is_moved_over_is_graded(session: Session) -> None:
    session.until_printed("✗ Failed")
    new = session.file.with_suffix(".new")
    new.write_text(RIGHT)
    new.replace(session.file)
    session.until_printed("✓ Passed")
    assert "is gone" not in session.printed()


def test_a_file_that_is_gone_is_told_and_graded_when_it_is_back(session: Session) -> None:
    session.until_printed("✗ Failed")
    session.file.unlink()
    session.until_printed(f"{session.file} is gone. It is graded again when it is back.")
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")
    assert f"{session.file.name} is back." in session.printed()


def test_a_file_that_is_no_text_is_told_and_watched_on(session: Session) -> None:
    session.until_printed("✗ Failed")
    session.file.write_bytes(b"\xff\xfe")
    session.until_printed("is not UTF-8 text (line 1).")
    assert "Save it as UTF-8 in your editor." in session.printed()
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")


def test_a_grader_that_breaks_is_told_and_the_watch_goes_on(session: Session) -> None:
    session.until_printed("✗ Failed")
    session.client.breaks = GradingError("The judge could not be started.", "Run `gpututor doctor`.")
    session.file.write_text(WRONG)
    session.until_printed("Run `gpututor doctor`.")
    session.client.breaks = ValueError("a bug")
    session.type("r\n")
    session.until_printed("The grader stopped in an unexpected way: ValueError('a bug')")
    session.client.breaks = None
    session.file.write_text(RIGHT)
    session.until_printed("✓ Passed")


def test_lines_of_a_pipe_come_whole_and_its_end_is_no_wish_to_leave() -> None:
    reading, writing = os.pipe()
    keyboard = LineReader(reading)
    assert keyboard.lines(0) == []
    os.write(writing, b"n\nh")
    assert keyboard.lines(1) == ["n"]
    os.write(writing, b"int\nr")
    assert keyboard.lines(1) == ["hint"]
    os.close(writing)
    assert [keyboard.lines(0) for _ in range(3)] == [[], [], []]
    os.close(reading)

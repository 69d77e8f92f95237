"""`watch` in a process of its own, with a terminal and without one."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.cli.watch import CLEAR
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from tests.support.timeouts import PATIENCE_S
from tests.support.tiny_course import RIGHT

INTERRUPTED = (130, -signal.SIGINT)
"""A shell tells both as 130. Python ends itself by the signal where an `exec`, as dataclasses do, was interrupted."""


@contextlib.contextmanager
def on_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpututor.cli.main", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
        preexec_fn=lambda: take_terminal(theirs),
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def take_terminal(descriptor: int) -> None:
    """So that Ctrl-C on it is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def read_until(terminal: int, text: str, patience_s: float = 90.0) -> str:
    seen, deadline = "", time.monotonic() + patience_s
    while text not in seen:
        assert time.monotonic() < deadline, f"waited in vain for {text!r} in\n{seen}"
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(terminal, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
    return seen


def test_on_a_terminal_with_the_real_judge_a_learner_fails_mends_goes_on_and_leaves(
    course_folder: Path, tmp_path: Path
) -> None:
    course = load_course(course_folder)
    workspace, _ = make_workspace(tmp_path / "mine", course)
    file = workspace.path_of(course.exercises[0])
    folders = ["--course", str(course_folder), "--workspace", str(workspace.folder)]
    with on_a_terminal("watch", "1.1", *folders) as (process, terminal):
        assert "NotImplementedError" in read_until(terminal, "q quit: a letter, then Enter.")
        file.write_text(RIGHT)
        seen = read_until(terminal, "n and Enter go on to 1.2 Twice 2.")
        assert f"{CLEAR}1.1 Twice 1\n" in seen
        assert "✓ Passed" in seen
        os.write(terminal, b"n\n")
        read_until(terminal, f"{CLEAR}1.2 Twice 2\n")  # the prompt of before may come first
        read_until(terminal, "q quit: a letter, then Enter.")
        modules = Path(f"/proc/{process.pid}/maps")
        if modules.exists():
            assert "torch" not in modules.read_text(), "what a person looks at never imports torch"
        os.write(terminal, b"q\n")
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("key", "codes"), [(b"\x03", INTERRUPTED), (b"\x04", (0,))], ids=["ctrl-c", "ctrl-d"])
def test_on_a_terminal_ctrl_c_and_ctrl_d_leave_without_a_traceback(
    course_folder: Path, tmp_path: Path, key: bytes, codes: tuple[int, ...]
) -> None:
    workspace, _ = make_workspace(tmp_path / "mine", load_course(course_folder))
    folders = ["--course", str(course_folder), "--workspace", str(workspace.folder)]
    with on_a_terminal("watch", "1.1", *folders) as (process, terminal):
        read_until(terminal, "1.1 Twice 1\n")
        os.write(terminal, key)
        seen = ""
        with contextlib.suppress(OSError):
            while chunk := os.read(terminal, 65536):
                seen += chunk.decode("utf-8", "replace")
        assert process.wait(PATIENCE_S) in codes, seen
        assert "Traceback" not in seen


def test_the_app_does_not_begin_anew_where_the_learners_folder_is_not_there_now(
    course_folder: Path, tmp_path: Path
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    (tmp_path / "mine").rename(tmp_path / "moved")
    with on_a_terminal("--course", str(course_folder)) as (process, terminal):
        seen = read_until(terminal, "To begin with new files")
        assert f"Your files are in {tmp_path / 'mine'}, and that folder is not there now." in seen
        assert process.wait(PATIENCE_S) == 2


@pytest.mark.long
def test_without_a_terminal_it_watches_until_it_is_told_to_end(course_folder: Path, tmp_path: Path) -> None:
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
    assert not re.search("\x1b", seen), "no control sequences where no terminal is"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) in INTERRUPTED
    process.stdout.close()

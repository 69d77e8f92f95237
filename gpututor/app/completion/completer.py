"""Asks the child process for names, in a thread: the app never waits, and a child that hangs is ended."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.message import Message

from gpututor.app.messages import NamesFound
from gpututor.paths import cache_folder
from gpututor.processes import kill_tree, python_module

READY_WITHIN_S = 60.0
"""The first start ever reads all of torch's stubs; later ones take what jedi has kept."""
ANSWERED_WITHIN_S = 2.0
MOST_FAILURES = 3
"""So often a child may die or hang in a row; then there is none any more until the app starts again."""


def default_command() -> list[str]:
    """The child's command; empty where jedi is not installed."""
    if importlib.util.find_spec("jedi") is None:
        return []
    return [*python_module("gpututor.app.completion.child", "-W", "ignore"), str(cache_folder() / "jedi")]


@dataclass(frozen=True)
class Question:
    """What can stand at a place of a text?"""

    number: int
    text: str
    line: int
    """From 1."""
    column: int


class Completer:
    """One child process, started with the first question. Only the newest question counts."""

    def __init__(
        self,
        post: Callable[[Message], object],
        command: Sequence[str] | None = None,
        *,
        ready_within_s: float = READY_WITHIN_S,
        answered_within_s: float = ANSWERED_WITHIN_S,
    ) -> None:
        self._post = post
        self._command = list(default_command() if command is None else command)
        self._ready_within_s = ready_within_s
        self._answered_within_s = answered_within_s
        self._newest: Question | None = None
        self._wanted = threading.Condition()
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._closed = False

    @property
    def is_there(self) -> bool:
        """Whether questions will be answered."""
        return bool(self._command) and not self._closed and self._failures < MOST_FAILURES

    def ask(self, question: Question) -> None:
        """Post `NamesFound` later, unless a newer question comes meanwhile."""
        if not self.is_there:
            return
        with self._wanted:
            self._newest = question
            self._wanted.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="completion", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the child. Does not wait for the thread."""
        with self._wanted:
            self._closed = True
            self._wanted.notify()
        self._end_child()

    def _work(self) -> None:
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._closed or self._newest is not None)
                question, self._newest = self._newest, None
            if self._closed or question is None:
                self._end_child()
                return
            names = self._answer(question)
            self._failures = 0 if names is not None else self._failures + 1
            # A failure is an answer too: whoever waits for more is told that nothing comes.
            self._post(NamesFound(question.number, tuple(names or ())))
            if self._failures >= MOST_FAILURES:
                return

    def _answer(self, question: Question) -> list[str] | None:
        """None when the child died or took too long; it is gone then."""
        try:
            child = self._started()
            request = {"text": question.text, "line": question.line, "column": question.column}
            assert child.stdin is not None
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            names = self._line(child, self._answered_within_s)["names"]
            return [name for name in names if isinstance(name, str)]
        except (OSError, ValueError, KeyError, TypeError):
            self._end_child()
            return None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end_child()
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._line(self._child, self._ready_within_s)
        return self._child

    @staticmethod
    def _line(child: subprocess.Popen[bytes], within_s: float) -> Any:
        """The next line of the child. Raises `OSError` when none comes in time, `ValueError` when it is no JSON."""
        assert child.stdout is not None
        deadline = time.monotonic() + within_s
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                raise TimeoutError("the child takes too long")
            part = child.stdout.read(1 << 16)
            if not part:
                raise OSError("the child has ended")
            line += part
        return json.loads(line)

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        kill_tree(child.pid)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

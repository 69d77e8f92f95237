"""Completion in the editor: the list, the names, and the process that finds them."""

from __future__ import annotations

import builtins
import contextlib
import json
import keyword
import re
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.widget import Widget

from gpututor.app.editor.python_text import Location
from gpututor.app.themes import CHOSEN
from gpututor.paths import cache_folder
from gpututor.processes import kill_tree, python_module
from gpututor.text import escape_control_chars

MOST_ROWS = 8
MOST_CELLS = 40
_FRAME = 2
"""Cells of the frame, in both directions."""


class CompletionList(Widget, can_focus=False):
    """List of names that begin with the typed word, with one chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.names: tuple[str, ...] = ()
        """All names that were offered."""
        self._fitting: list[str] = []
        self._chosen = 0
        self._first = 0
        self._start: Location = (0, 0)
        """Start of the name in the text."""
        self._word = ""
        self._waiting = ""
        """Words that are shown until more names come; empty if none will."""
        self._cursor = Offset()
        self.is_open = False

    @property
    def chosen(self) -> str | None:
        return self._fitting[self._chosen] if self._fitting else None

    @property
    def shown(self) -> list[str]:
        return list(self._fitting)

    def open(self, names: Sequence[str], word: str, start: Location, cursor: Offset, *, waiting: str) -> bool:
        """Show names for the word that begins at `start`; return False if there is nothing to show.

        `cursor`: end of the word on the screen. `waiting`: what to show until more names come; empty if none will.
        """
        self._start, self._word, self._cursor = start, word, cursor - (cell_len(word), 0)
        self.is_open = True
        return self.offer(names, waiting=waiting)

    def offer(self, names: Sequence[str], *, waiting: str = "") -> bool:
        """Show other names for the same word, and keep the choice. Return False if there is nothing to show."""
        chosen = self.chosen if self._chosen else None
        self.names, self._waiting = tuple(names), waiting
        self._filter(chosen)
        return self.is_open

    def follow(self, word: str, start: Location) -> None:
        """Take the word at the cursor: show the names that still fit, or close if it is another word."""
        if not self.is_open or (word, start) == (self._word, self._start):
            return
        if start != self._start or not word:
            self.close()
            return
        self._word = word
        self._filter(None)

    def move(self, by: int) -> None:
        """Choose another name; single steps wrap around the ends."""
        if self._fitting:
            last = len(self._fitting) - 1
            wanted = self._chosen + by
            self._choose(min(max(wanted, 0), last) if abs(by) > 1 else wanted % (last + 1))

    def close(self) -> None:
        self.is_open = False
        self.display = False
        self.names, self._fitting = (), []

    def _filter(self, chosen: str | None) -> None:
        word = self._word
        capitals = word != word.lower()
        fitting = [name for name in self.names if (name if capitals else name.lower()).startswith(word)]
        self._fitting = [name for name in fitting if name != word]
        if not self._fitting and not self._waiting:
            self.close()
            return
        self._choose(self._fitting.index(chosen) if chosen in self._fitting else 0)
        self._place()

    def _choose(self, index: int) -> None:
        self._chosen = index
        self._first = min(max(self._first, index - self._rows + 1), index)
        if self._fitting:
            self.border_subtitle = f"{index + 1} of {len(self._fitting)}" if len(self._fitting) > self._rows else ""
        self.refresh()

    @property
    def _rows(self) -> int:
        return max(1, min(MOST_ROWS, len(self._fitting), self._space - _FRAME))

    @property
    def _space(self) -> int:
        """Rows below the cursor or above it, whichever are more."""
        height = self.screen.size.height if self.is_attached else MOST_ROWS + _FRAME
        return max(height - self._cursor.y - 1, self._cursor.y)

    def _place(self) -> None:
        """Put the list below the word, or above it if there is no space, within the screen."""
        if not self.is_attached:
            return
        width, height = self.screen.size
        longest = max((cell_len(escape_control_chars(name)) for name in self._fitting), default=len(self._waiting))
        cells = min(max(longest, 14), MOST_CELLS, width - _FRAME - 2) + _FRAME + 2
        rows = self._rows + _FRAME
        y = self._cursor.y + 1
        if y + rows > height:
            y = self._cursor.y - rows if self._cursor.y >= rows else max(0, height - rows)
        self.styles.width, self.styles.height = cells, rows
        self.absolute_offset = Offset(max(0, min(self._cursor.x - 2, width - cells)), y)
        self.display = True
        self.refresh(layout=True)

    def render(self) -> Content:
        room = self.size.width
        if not self._fitting:
            return Content.assemble((f" {self._waiting} ", "$foreground-muted"))
        rows: list[Content] = []
        for index in range(self._first, min(self._first + self._rows, len(self._fitting))):
            name = Content(escape_control_chars(self._fitting[index])).truncate(room - 2, ellipsis=True)
            typed = name.stylize("bold", 0, min(len(self._word), len(name)))
            row = Content.assemble(" ", typed, " " * (room - 1 - name.cell_length))
            rows.append(row.stylize(CHOSEN) if index == self._chosen else row)
        return Content("\n").join(rows)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        event.prevent_default()
        index = self._first + event.get_content_offset_capture(self).y
        if 0 <= index < len(self._fitting):
            self._choose(index)


WAITING = "looking …"
STARTING = "reading PyTorch's names …"
"""Shown until the child is ready, which takes seconds."""

READY_WITHIN_S = 60.0
"""Seconds for the start. The very first start reads all of torch's stubs, which jedi then caches."""
ANSWERED_WITHIN_S = 10.0
"""Seconds for an answer: the first about a module reads its files, which takes 5 s on a busy machine."""
MOST_FAILURES = 3
"""Number of failures in a row after which no child is started until the app starts again."""


def default_command() -> list[str]:
    return [*python_module("gpututor.app.editor.completion_process", "-W", "ignore"), str(cache_folder() / "jedi")]


@dataclass(frozen=True)
class Question:
    """A request about a place of a text."""

    number: int
    text: str
    line: int
    """Number from 1."""
    column: int
    about: Literal["names", "documentation"] = "names"
    """Kind of answer: the names that fit there, or the documentation of the name there, as the child returns it."""


class Completer:
    """A child process, started with the first question. Only the newest question is answered."""

    def __init__(
        self,
        answer: Callable[[int, tuple[str, ...]], object],
        command: Sequence[str] | None = None,
        *,
        ready_within_s: float = READY_WITHIN_S,
        answered_within_s: float = ANSWERED_WITHIN_S,
    ) -> None:
        """`answer` is called in a thread, with a question's number and the answer, which is empty after a failure."""
        self._post_answer = answer
        self._command = list(default_command() if command is None else command)
        self._ready_within_s = ready_within_s
        self._answered_within_s = answered_within_s
        self._newest: Question | None = None
        self._wanted = threading.Condition()
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._is_ready = False
        self._closed = False

    @property
    def is_available(self) -> bool:
        """True if questions will be answered."""
        return bool(self._command) and not self._closed and self._failures < MOST_FAILURES

    @property
    def waiting(self) -> str:
        """Words to show until a question is answered; empty if it will not be."""
        if not self.is_available:
            return ""
        return WAITING if self._is_ready else STARTING

    def ask(self, question: Question) -> None:
        """Answer the question later, unless a newer one comes before."""
        if not self.is_available:
            return
        with self._wanted:
            self._newest = question
            self._wanted.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="completion", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the child, without waiting for the thread."""
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
            answer = self._answer(question)
            self._failures = 0 if answer is not None else self._failures + 1
            self._post_answer(question.number, tuple(answer or ()))
            if self._failures >= MOST_FAILURES:
                return

    def _answer(self, question: Question) -> list[str] | None:
        """Ask the child; return None, and end the child, if it died or took too long."""
        try:
            child = self._started()
            place = {"text": question.text, "line": question.line, "column": question.column}
            assert child.stdin is not None
            child.stdin.write(json.dumps({"about": question.about, **place}).encode() + b"\n")
            child.stdin.flush()
            answer = self._line(child, self._answered_within_s)[question.about]
            return [text for text in answer if isinstance(text, str)]
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
        self._is_ready = True
        return self._child

    @staticmethod
    def _line(child: subprocess.Popen[bytes], within_s: float) -> Any:
        """Return the child's next line. Raises `OSError` if none comes in time, `ValueError` if it is not JSON."""
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
        if child is not None:
            kill_tree(child.pid)
            with contextlib.suppress(OSError), child:  # which closes its pipes and waits
                pass


_NAME = re.compile(r"(?<!\w)(?!\d)\w+")
_ATTRIBUTE = re.compile(r"\.\s*((?!\d)\w+)")
_AFTER_DOT = re.compile(r"\.\s*\w*$")
_HALF_NAME = re.compile(r"(?<!\w)(?!\d)\w+$")
_IMPORT = re.compile(r"\s*(from|import)\s")
_NO_CODE = re.compile(r"""("{3}|'{3})[\s\S]*?(?:\1|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|#.*""")
"""Strings and comments, also those without an end."""


def is_empty_place(before: str) -> bool:
    """Return True if the text before the cursor in its line leaves open what comes next, so that any name fits."""
    return not (_HALF_NAME.search(before) or _AFTER_DOT.search(before) or _IMPORT.match(before))


def file_names(lines: Sequence[str], row: int, column: int) -> list[str]:
    """Return names for a place: after a dot the file's attributes, else its names, the keywords and the builtins.

    In an import there are none: the file does not say what can be imported.
    """
    here = lines[row][:column]
    if _IMPORT.match(here):
        return []
    pattern = _ATTRIBUTE if _AFTER_DOT.search(here) else _NAME
    names: set[str] = set()
    code = _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), "\n".join(lines))
    for at, line in enumerate(code.split("\n")):
        for match in pattern.finditer(line):
            name = match[1] if pattern is _ATTRIBUTE else match[0]
            # Leave out the word that is being written.
            if not (at == row and match.start() <= column <= match.end()):
                names.add(name)
    if pattern is _ATTRIBUTE:
        return _sorted(names)
    names -= set(keyword.kwlist)
    public = {name for name in dir(builtins) if not name.startswith("_")} - names - set(keyword.kwlist)
    return [*_sorted(names), *_sorted(set(keyword.kwlist)), *_sorted(public)]


def _sorted(names: set[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.startswith("_"), name.lower(), name))

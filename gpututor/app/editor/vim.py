"""Vim keys for the editor: modes, motions, operators, registers and repetition."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from gpututor.app.editor import python_text
from gpututor.app.editor.python_text import Location, TextPositions
from gpututor.app.editor.vim_motions import FINDS, Incomplete, MotionTarget, indent, inner_word, target, text_object
from gpututor.course.model import MAX_SUBMISSION_BYTES


class Mode(StrEnum):
    NORMAL = "NORMAL"
    INSERT = "INSERT"
    VISUAL = "VISUAL"
    VISUAL_LINE = "VISUAL LINE"


class TooLong(Exception):
    """A command would make a text that is too long to be graded."""


class VimSpan(NamedTuple):
    """Text for an operator."""

    start: Location
    end: Location
    """The place after the last character; for whole lines, a place on the last line."""
    lines: bool = False


_SAME = {
    "x": "dl", "X": "dh", "D": "d$", "C": "c$", "s": "cl", "S": "cc", "Y": "yy",
}  # fmt: skip
"""Short commands, and the commands that they abbreviate."""
_NAMES = {
    "left": "h", "right": "l", "up": "k", "down": "j", "backspace": "h", "space": "l", "home": "0", "end": "$",
    "enter": "+", "delete": "x",
}  # fmt: skip
"""Characters that mean the same as a key without a character."""
_HALF_PAGE = {"ctrl+d": "j", "ctrl+u": "k"}
_OPERATORS = "dcy<>"
_WITH_ANOTHER_KEY = "\"m'`@qzZ[]"
"""Unsupported commands that Vim completes with another key; both keys do nothing."""
_MOST_TIMES = 9999
"""Highest count: a longer repetition would never end."""


class Vim:
    """Keys of Vim for a text area. Text that is typed in INSERT mode is left to the area."""

    def __init__(
        self,
        area: TextArea,
        changed: Callable[[], object],
        find: Callable[[int, str], object],
        reply: Callable[[str], object],
    ) -> None:
        """`changed` is called for another mode or command line, and `reply` with a sentence for the user.

        `find` asks for a text (0), or goes to the next (1) or previous (-1) match of a word or, without one, of the
        last text.
        """
        self._area, self._changed, self._find, self._reply = area, changed, find, reply
        self.mode = Mode.NORMAL
        self._keys = ""
        """Keys of a command that is not complete yet."""
        self._cursor = self._anchor = (0, 0)
        """Ends of what is selected in VISUAL mode, both included."""
        self._register = ("", False)
        """Text that was deleted or yanked, and True for whole lines."""
        self._last_find = ""
        self._last_change: tuple[str, str] = ("", "")
        """Keys of the last change, and the text that was inserted then."""
        self._inserting_from: Location = (0, 0)
        self._text_before = ""
        """The text when the INSERT mode began."""
        self._changing = ""
        """Keys of the change that the INSERT mode belongs to."""
        self._has_escaped = False
        """True right after Esc left a mode or a command: a second Esc, typed from habit, does nothing."""

    # Keys

    def handle(self, key: str, character: str | None = None) -> bool:
        """Handle a key; return False if it is for the text area. `character`: what it would insert."""
        if key == "escape":
            return self.escape()
        self._has_escaped = False
        if self.mode is Mode.INSERT:
            return False
        if key == "ctrl+r":
            self._history(self._area.redo, 1)
            return True
        last = len(self._lines) - 1  # another program may have made the text shorter
        self._anchor, self._cursor = ((min(row, last), column) for row, column in (self._anchor, self._cursor))
        letter = character if character and character.isprintable() else ""
        if self._keys[:1] == ":":
            self._extend_command_line(key, letter)
            self._changed()
            return True
        if key in _HALF_PAGE:
            self._keys, letter = "", f"{max(1, self._area.size.height // 2)}{_HALF_PAGE[key]}"
        elif self._keys[-1:] not in ("f", "F", "t", "T", "r"):
            letter = _NAMES.get(key, letter)
        if not letter:
            waited, self._keys = bool(self._keys), ""
            return key in ("tab", "ctrl+w") or (waited and key in _NAMES)  # the text area would edit the text
        if self.mode is Mode.NORMAL and not self._keys:
            self._cursor = self._area.cursor_location  # the mouse or another program may have moved it
        self._keys += letter
        try:
            self._run(self._keys)
            self._keys = ""
        except Incomplete:
            if self.command_line:
                self._changed()
        except TooLong:
            self._keys = ""
            self._reply(f"Stopped: a file of more than {MAX_SUBMISSION_BYTES >> 20} MiB is not graded.")
        self._show_cursor()
        return True

    @property
    def command_line(self) -> str:
        """Return `:` and what was typed after it; empty outside of a command line."""
        return self._keys if self._keys[:1] == ":" else ""

    def _extend_command_line(self, key: str, letter: str) -> None:
        """Collect what follows `:`, up to Enter. Only a line's number does something."""
        if key != "enter":
            self._keys = self._keys[:-1] if key == "backspace" else self._keys + letter
            return
        number, self._keys = self._keys[1:], ""
        if number.isdecimal():
            self._run(f"{number.lstrip('0') or 1}G")
            self._show_cursor()
        elif number:
            self._reply(f"There is no :{number}. The app saves by itself; : and a number goes to that line.")

    def escape(self) -> bool:
        """Go back to NORMAL mode, or drop an incomplete command; return False if there is nothing to leave."""
        if self.mode is Mode.NORMAL or (self.mode is not Mode.INSERT and _count(self._keys)[1]):
            was_waiting, self._keys = bool(self._keys), ""
            is_done = was_waiting or self._has_escaped
            self._has_escaped = was_waiting
            self._changed()
            return is_done
        self._has_escaped = True
        if self.mode is Mode.INSERT:
            self._end_insert()
        else:
            self._area.move_cursor(self._cursor)
        self._keys = ""
        self._switch(Mode.NORMAL)
        self._clamp()
        return True

    def reset(self) -> None:
        """Start in NORMAL mode, as for another file."""
        self._keys = ""
        self._switch(Mode.NORMAL)

    def _switch(self, mode: Mode) -> None:
        if mode is not self.mode:
            self.mode = mode
            self._changed()

    def _run(self, keys: str) -> None:
        """Run a command; an unknown one does nothing. Raises `Incomplete` and `TooLong`."""
        count, rest = _count(keys)
        if not rest:
            raise Incomplete
        times, letter = count or 1, rest[0]
        if letter == ":" and not count:
            raise Incomplete
        if letter in _WITH_ANOTHER_KEY:
            if len(rest) < 2:
                raise Incomplete
            return
        if self.mode is not Mode.NORMAL and self._run_on_selection(rest, times):
            return
        if letter in _SAME and self.mode is Mode.NORMAL:
            self._run(f"{count or ''}{_SAME[letter]}{rest[1:]}")
        elif letter in _OPERATORS:
            self._operate_on(letter, rest[1:], count, keys)
        elif letter in "iaIAoO":
            self._begin_insert(letter, keys)
        elif letter in "vV":
            self._anchor = self._cursor
            self._switch(Mode.VISUAL if letter == "v" else Mode.VISUAL_LINE)
        elif letter in "pP":
            self._put(before=letter == "P", times=times)
            self._last_change = (keys, "")
        elif letter == "r":
            self._replace(rest[1:2], times, keys)
        elif letter == "u":
            self._history(self._area.undo, times)
        elif letter == ".":
            self._repeat(times)
        elif letter in "/nN":
            self._keys = ""  # complete, so that Esc leaves VISUAL mode
            self.escape()
            self._find({"/": 0, "n": 1, "N": -1}[letter], "")
        elif letter in "*#":
            self._find_word(1 if letter == "*" else -1)
        elif letter == "J":
            self._join(self._cursor[0], max(2, times), keys)
        elif letter == "~":
            self._swap_case(times, keys)
        elif (there := self._target(rest, count)) is not None:
            self._go(there.to)

    def _run_on_selection(self, rest: str, times: int) -> bool:
        """Run a command of VISUAL mode; return False for motions."""
        letter = {"x": "d", "s": "c"}.get(rest[0], rest[0])
        start, end = sorted((self._anchor, self._cursor))
        is_lines = self.mode is Mode.VISUAL_LINE
        span = VimSpan(start, (end[0], end[1] + 1), is_lines)
        if letter in _OPERATORS:
            self._switch(Mode.NORMAL)
            self._operate(letter, span, times)
        elif letter in "vV":
            wanted = Mode.VISUAL if letter == "v" else Mode.VISUAL_LINE
            self._switch(Mode.NORMAL if wanted is self.mode else wanted)
            self._area.move_cursor(self._cursor)
        elif letter == "o":
            self._anchor, self._cursor = self._cursor, self._anchor
        elif letter in "ia":
            ends = text_object(rest, self._cursor, self._lines)
            if ends is not None and ends[0] < ends[1]:
                self._anchor, (row, column) = ends
                self._cursor = (row, column - 1)
        elif letter == "J":
            self._switch(Mode.NORMAL)
            self._join(start[0], max(2, end[0] - start[0] + 1), "")
        elif rest == "r":
            raise Incomplete
        else:
            return letter in "IAOpPu.r~*#"  # these do nothing here
        return True

    def _go(self, to: Location) -> None:
        self._cursor = to
        if self.mode is Mode.NORMAL:
            self._area.move_cursor(to)

    # Operators

    def _operate_on(self, operator: str, keys: str, count: int, all_keys: str) -> None:
        """Run an operator on the text of a motion, of lines or of a word. Raises `Incomplete`."""
        again, rest = _count(keys)
        if len(rest) < 2 and rest in _WITH_ANOTHER_KEY:
            raise Incomplete
        count = (count or 1) * (again or 1) if count or again else 0
        row = self._cursor[0]
        if rest[0] == operator:
            span = VimSpan((row, 0), (min(row + (count or 1), len(self._lines)) - 1, 0), lines=True)
        elif rest[0] in "ia":
            ends = text_object(rest, self._cursor, self._lines)
            if ends is None:
                return
            span = VimSpan(*ends)
        else:
            there = self._target("e" if operator == "c" and rest == "w" else rest, count)
            if operator == "c" and rest == "w" and there is not None:
                there = self._word_to_change(there, count)
            if there is None:
                return
            start, end = sorted((self._cursor, there.to))
            if there.lines and start[0] == end[0] and rest[0] in "jk":
                return
            if rest == "w" and operator != "c" and end[0] > start[0] and end[1] <= indent(self._lines[end[0]]):
                end = (end[0] - 1, len(self._lines[end[0] - 1]))  # not over the end of the line
            span = VimSpan(start, (end[0], end[1] + (there.included and not there.lines)), there.lines)
        if operator != "y":
            self._last_change = (all_keys, "")
        self._operate(operator, span, 1, all_keys)

    def _word_to_change(self, end: MotionTarget, count: int) -> MotionTarget:
        """Return the end of the text that `cw` changes: the space after the word stays."""
        row = self._cursor[0]
        (_, first), (_, behind) = inner_word(self._cursor, self._lines[row])
        return end if count > 1 or first == behind else MotionTarget((row, behind - 1), included=True)

    def _target(self, keys: str, count: int) -> MotionTarget | None:
        there = target(keys, count, self._cursor, self._lines, self._last_find)
        if keys[0] in FINDS:
            self._last_find = keys
        return there

    def _operate(self, operator: str, span: VimSpan, times: int, keys: str = "") -> None:
        (first, _), (last, _), is_lines = span
        lines = self._lines
        end = (last, min(span.end[1], len(lines[last])))
        if operator in "<>":
            shifted = list(lines[first : last + 1])
            if operator == ">":
                self._check_room(len(python_text.STEP) * len(shifted) * times)
            for _ in range(times):
                shifted = (python_text.indented if operator == ">" else python_text.shifted_left)(shifted)
            self._edit("\n".join(shifted), (first, 0), (last, len(lines[last])))
            self._go((first, indent(self._lines[first])))
            return
        text = "\n".join(lines[first : last + 1]) if is_lines else self._area.get_text_range(span.start, end)
        self._register = (text, is_lines)
        if operator == "y":
            self._go((first, self._cursor[1]) if is_lines else span.start)
        elif operator == "c":
            start = lines[first][: indent(lines[first])] if is_lines else ""
            self._edit(start, (first, 0) if is_lines else span.start, (last, len(lines[last])) if is_lines else end)
            self._start_inserting(keys)
        elif not is_lines:
            self._edit("", span.start, end)
            self._go(span.start)
        elif last + 1 < len(lines):
            self._edit("", (first, 0), (last + 1, 0))
            self._go((first, indent(self._lines[first])))
        else:
            above = max(0, first - 1)
            self._edit("", (above, len(lines[above]) if first else 0), (last, len(lines[last])))
            self._go((above, indent(self._lines[above])))

    def _put(self, *, before: bool, times: int) -> None:
        text, is_lines = self._register
        row, column = self._cursor
        if not text and not is_lines:
            return
        line = self._lines[row]
        self._check_room((len(text) + 1) * times)
        if is_lines:
            block = "\n".join([text] * times)
            at = (row, 0) if before else (row, len(line))
            self._edit(f"{block}\n" if before else f"\n{block}", at, at)
            to = row if before else row + 1
            self._go((to, indent(self._lines[to])))
        else:
            at = (row, column if before else min(column + 1, len(line)))
            self._edit(text * times, at, at)
            self._go(at if "\n" in text else (row, at[1] + len(text) * times - 1))

    def _replace(self, character: str, times: int, keys: str) -> None:
        if not character:
            raise Incomplete
        row, column = self._cursor
        if column + times <= len(self._lines[row]):
            self._edit(character * times, (row, column), (row, column + times))
            self._go((row, column + times - 1))
            self._last_change = (keys, "")

    def _swap_case(self, times: int, keys: str) -> None:
        row, column = self._cursor
        text = self._lines[row][column : column + times]
        if text:
            self._edit(text.swapcase(), (row, column), (row, column + len(text)))
            self._go((row, column + len(text)))
            self._last_change = (keys, "")

    def _join(self, row: int, count: int, keys: str) -> None:
        """Join lines, with a blank in place of each indentation."""
        lines = self._lines[row : row + count]
        if len(lines) < 2:
            return
        line, column = lines[0], 0
        for following in lines[1:]:
            column, text = len(line), following.lstrip()
            blank = " " if text and not text.startswith(")") and line[-1:] not in ("", " ") else ""
            line += blank + text
        self._edit(line, (row, 0), (row + len(lines) - 1, len(lines[-1])))
        self._go((row, column))
        if keys:
            self._last_change = (keys, "")

    def _find_word(self, by: int) -> None:
        """Go to the next (1) or previous (-1) occurrence of the word at the cursor."""
        line = self._lines[self._cursor[0]]
        (_, start), _ = inner_word(self._cursor, line)
        word = re.search(r"\w+", line[start:])
        if word is not None:
            self._find(by, word[0])

    # INSERT mode, undo, repetition

    def _begin_insert(self, letter: str, keys: str) -> None:
        row, column = self._cursor
        line = self._lines[row]
        match letter:
            case "a":
                column = min(column + 1, len(line))
            case "I":
                column = indent(line)
            case "A":
                column = len(line)
            case "o":
                blanks = python_text.after_line(line, self._lines[:row])
                self._edit(f"\n{blanks}", (row, len(line)), (row, len(line)))
                row, column = row + 1, len(blanks)
            case "O":
                column = indent(line)
                self._edit(f"{line[:column]}\n", (row, 0), (row, 0))
        self._go((row, column))
        self._start_inserting(keys)

    def _start_inserting(self, keys: str) -> None:
        self._changing, self._inserting_from = keys, self._area.cursor_location
        self._text_before = self._area.text
        self._switch(Mode.INSERT)

    def _end_insert(self) -> None:
        start, cursor, before = self._inserting_from, self._area.cursor_location, self._text_before
        typed = self._area.get_text_range(start, cursor) if cursor > start else ""
        if self._changing:
            at = TextPositions(before).offset(start)
            # Else the cursor was moved meanwhile, or a line was indented anew.
            is_one_piece = self._area.text == before[:at] + typed + before[at:]
            self._last_change = (self._changing, typed if is_one_piece else "")
        self._area.history.checkpoint()
        self._area.move_cursor((cursor[0], max(0, cursor[1] - 1)))

    def _repeat(self, times: int) -> None:
        keys, typed = self._last_change
        for _ in range(times if keys else 0):
            if typed:
                self._check_room(len(typed))
            self._run(keys)
            if self.mode is Mode.INSERT:
                self._area.insert(typed)
                self.escape()
            self._cursor = self._area.cursor_location

    def _history(self, step: Callable[[], None], times: int) -> None:
        for _ in range(times):
            step()
        self._area.move_cursor(self._area.selection.start)

    # The text

    @property
    def _lines(self) -> Sequence[str]:
        return self._area.document.lines

    def _check_room(self, length: int) -> None:
        """Check that the text may grow by `length` characters. Raises `TooLong`."""
        if sum(len(line) + 1 for line in self._lines) + length > MAX_SUBMISSION_BYTES:
            raise TooLong

    def _edit(self, text: str, start: Location, end: Location) -> None:
        """Replace text, as a step of its own for undo."""
        self._area.history.checkpoint()
        self._area.replace(text, start, end, maintain_selection_offset=False)
        self._area.history.checkpoint()

    def _show_cursor(self) -> None:
        if self.mode is Mode.NORMAL:
            self._clamp()
        elif self.mode in (Mode.VISUAL, Mode.VISUAL_LINE):
            self._show_selection()

    def _clamp(self) -> None:
        """Keep the cursor on a character of its line."""
        row, column = self._area.cursor_location
        last = max(0, len(self._lines[row]) - 1)
        if column > last or not self._area.selection.is_empty:
            self._area.move_cursor((row, min(column, last)))

    def _show_selection(self) -> None:
        row, column = self._cursor
        self._cursor = (row, max(0, min(column, len(self._lines[row]) - 1)))
        start, end = sorted((self._anchor, self._cursor))
        start, end = start, (end[0], end[1] + 1)
        if self.mode is Mode.VISUAL_LINE:
            start, end = (start[0], 0), (end[0], len(self._lines[end[0]]))
        end = (end[0], min(end[1], len(self._lines[end[0]])))
        self._area.selection = Selection(start, end) if self._cursor >= self._anchor else Selection(end, start)


def _count(keys: str) -> tuple[int, str]:
    """Return the number before a command, 0 without one, and the rest."""
    match = re.match(r"[1-9]\d*", keys)
    return (min(int(match[0][:9]), _MOST_TIMES), keys[match.end() :]) if match else (0, keys)

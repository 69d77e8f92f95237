"""What Tab, Shift+Tab, Enter and the comment key do to lines of Python. Plain functions of lines."""

from __future__ import annotations

from collections.abc import Callable

Change = Callable[[list[str]], list[str]]

STEP = " " * 4
_LEAVES_BLOCK = ("return", "pass", "raise", "break", "continue")


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def after_line(before_cursor: str) -> str:
    """The white space that a line gets which is opened after `before_cursor`."""
    indent = indent_of(before_cursor)
    code = before_cursor.partition("#")[0].rstrip()
    if code.endswith((":", "(", "[", "{")):
        return indent + STEP
    first_word = code.strip().partition(" ")[0]
    if first_word in _LEAVES_BLOCK and not code.endswith(("\\", ",")):
        return indent.removesuffix(STEP)
    return indent


def indented(lines: list[str]) -> list[str]:
    return [STEP + line if line.strip() else line for line in lines]


def dedented(lines: list[str]) -> list[str]:
    return [line[min(len(STEP), len(indent_of(line))) :] for line in lines]


def comment_toggled(lines: list[str]) -> list[str]:
    """Comment all lines out at their common indent; if all are comments already, bring them back."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return lines
    if all(line.lstrip().startswith("#") for line in filled):
        return [_uncommented(line) for line in lines]
    depth = min(len(indent_of(line)) for line in filled)
    return [f"{line[:depth]}# {line[depth:]}" if line.strip() else line for line in lines]


def _uncommented(line: str) -> str:
    indent = indent_of(line)
    rest = line[len(indent) :].removeprefix("#")
    return indent + rest.removeprefix(" ") if rest.strip() else indent.rstrip()

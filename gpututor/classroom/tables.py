"""Tables as CSV that no spreadsheet takes for a formula, and the tables that platforms write."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.errors import UsageError
from gpututor.files import ordinary
from gpututor.text import escape_control_chars

_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""What formulas begin with; also as wide letters, which some spreadsheets take for the same."""
_FORMULA = re.compile(rf"\s*[{_SIGNS}]| *[\t\r\n]")
_IN_TEXT = {
    delimiter: re.compile(rf"(?<=[{others}\t\r\n])(?=[\"']*\s*[\"']*[{_SIGNS}])")
    for delimiter, others in ((",", ";"), (";", ","), ("\t", ",;"))
}
"""Where, with another delimiter than this one, a spreadsheet would begin a cell with a formula."""
_HARMLESS = re.compile(r"-|-?[0-9]+([.,][0-9]+)?")
_QUOTED = re.compile('"[^"]*"')
_LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Kept:
    """A cell of a platform's own file, which goes back to it: numbers and a lone - stay as they are."""

    text: str


Cell = str | float | Kept | None


def csv_text(rows: Iterable[Sequence[Cell]], delimiter: str = ",") -> str:
    """The rows as CSV. Texts that a spreadsheet would take for a formula begin with a ', and control characters are
    written out."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerows([[_written(cell, delimiter) for cell in row] for row in rows])
    return stream.getvalue()


def _written(cell: Cell, delimiter: str) -> str:
    match cell:
        case None:
            return ""
        case str():
            return safe(cell, delimiter)
        case Kept(text):
            return text if _HARMLESS.fullmatch(text) else safe(text, delimiter)
        case _:
            return number(cell)


def safe(text: str, delimiter: str = ",") -> str:
    """`text` for a cell: what begins, after blank space, like a formula gets a ' in front.

    So does what would begin like one for a spreadsheet that takes another delimiter, or ends a cell at a newline.
    """
    shown = text if text.isprintable() and text.isascii() else escape_control_chars(text)  # a class has a million cells
    shown = _IN_TEXT[delimiter].sub("'", shown)
    return f"'{shown}" if _FORMULA.match(text) else shown


def number(value: float) -> str:
    """`7`, `2.5`, `0.333333`: never with an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def number_of(value: float | None) -> str:
    """`?` for what is not known yet."""
    return "?" if value is None else number(value)


@dataclass(frozen=True)
class Table:
    """A table that a platform wrote."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Each as long as the header."""
    delimiter: str

    def column(self, name: str) -> int:
        """Where the column is. Raises `UsageError` for none."""
        if name not in self.header:
            raise UsageError(f"{self.path}: there is no column {name!r}.", f"It has {', '.join(self.header)}.")
        return self.header.index(name)


def read_table(path: Path) -> Table:
    """Raises `UsageError` for what cannot be read, or has no header."""
    try:
        with open(path, "rb", opener=ordinary) as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise ValueError(f"larger than {_LARGEST_BYTES >> 20} MiB")
        text = content.decode("utf-8-sig")
        first = _QUOTED.sub("", text.partition("\n")[0])
        delimiter = max(",;\t", key=first.count)
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(line)]
    except (OSError, ValueError, csv.Error) as error:
        advice = "Export the file from the platform once more, as CSV in UTF-8."
        raise UsageError(f"{path}: cannot be read as CSV ({error})", advice) from error
    if not lines:
        raise UsageError(f"{path}: it is empty.", "Export the file from the platform once more.")
    header = tuple(name.strip() for name in lines[0])
    rows = tuple(tuple([*line, *[""] * len(header)][: len(header)]) for line in lines[1:])
    return Table(path, header, rows, delimiter)

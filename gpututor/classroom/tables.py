"""CSV tables: our own, whose cells spreadsheets never treat as formulas, and the platforms' tables."""

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
"""First characters of formulas, including the wide ones, which some spreadsheets accept."""
_FORMULA = re.compile(rf"\s*[{_SIGNS}]| *[\t\r\n]")
_IN_TEXT = {
    delimiter: re.compile(rf"(?<=[{others}\t\r\n])(?=[\"']*\s*[\"']*[{_SIGNS}])")
    for delimiter, others in ((",", ";"), (";", ","), ("\t", ",;"))
}
"""Places where a spreadsheet that splits at another delimiter would find a cell with a formula."""
_HARMLESS = re.compile(r"-|-?[0-9]+([.,][0-9]+)?")
_QUOTED = re.compile('"[^"]*"')
_LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class PlatformCell:
    """A cell of a platform's file. A number or a single - is written back unchanged."""

    text: str


Cell = str | float | PlatformCell | None


def csv_text(rows: Iterable[Sequence[Cell]], delimiter: str = ",") -> str:
    """Return the rows as CSV, with escaped control characters and a ' in front of texts that look like formulas."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerows([[_cell_text(cell, delimiter) for cell in row] for row in rows])
    return stream.getvalue()


def _cell_text(cell: Cell, delimiter: str) -> str:
    match cell:
        case None:
            return ""
        case str():
            return _safe(cell, delimiter)
        case PlatformCell(text):
            return text if _HARMLESS.fullmatch(text) else _safe(text, delimiter)
        case _:
            return number(cell)


def _safe(text: str, delimiter: str) -> str:
    """Put a ' before each place where a spreadsheet may start a formula, for any delimiter that it assumes."""
    shown = text if text.isprintable() and text.isascii() else escape_control_chars(text)  # a class has a million cells
    shown = _IN_TEXT[delimiter].sub("'", shown)
    return f"'{shown}" if _FORMULA.match(text) else shown


def number(value: float | None) -> str:
    """Format as `7`, `2.5`, `0.333333`, never with an exponent; `?` for None."""
    return "?" if value is None else f"{value:.6f}".rstrip("0").rstrip(".") or "0"


@dataclass(frozen=True)
class PlatformTable:
    """A table that a platform wrote."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    delimiter: str
    lines: tuple[int, ...] = ()
    """Last line, from 1, of each row."""

    def column(self, name: str) -> int | None:
        """Return the position of the column; None if there is none."""
        return self.header.index(name) if name in self.header else None


def read_table(path: Path) -> PlatformTable:
    """Read a CSV file. Raises `UsageError` for an unreadable or empty one."""
    content, ended = b"", 0
    lines: list[tuple[int, list[str]]] = []
    try:
        with open(path, "rb", opener=ordinary) as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise ValueError(f"larger than {_LARGEST_BYTES >> 20} MiB")
        text = content.decode("utf-8-sig")
        first = _QUOTED.sub("", text.partition("\n")[0])
        delimiter = max(",;\t", key=first.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for line in reader:
            ended = reader.line_num
            lines += [(ended, line)] if any(line) else []
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file.", "Check the name of the file.") from error
    except UnicodeDecodeError as error:
        line_number = content.count(b"\n", 0, error.start) + 1
        title = f"{path}, line {line_number}: it is not UTF-8 text."
        raise UsageError(title, "Save it as CSV in UTF-8. In Excel, the type is called CSV UTF-8.") from error
    except csv.Error as error:
        title = f"{path}, line {ended + 1}: a quote is not closed, or the text goes on after it ({error})."
        raise UsageError(title, 'Close each quote at the end of its cell, and write "" for a quote inside.') from error
    except (OSError, ValueError) as error:
        advice = "Export the file from the platform once more, as CSV in UTF-8."
        raise UsageError(f"{path}: cannot be read as CSV ({error})", advice) from error
    if not lines:
        raise UsageError(f"{path}: it is empty.", "Export the file from the platform once more.")
    header = tuple(name.strip() for name in lines[0][1])
    for number, line in lines[1:]:
        if any(line[len(header) :]):
            advice = "Put a cell with a comma, such as a number or a name, in quotes."
            raise UsageError(f"{path}, line {number}: {len(line)} cells for {len(header)} columns.", advice)
    rows = tuple(tuple([*line, *[""] * len(header)][: len(header)]) for _, line in lines[1:])
    return PlatformTable(path, header, rows, delimiter, tuple(number for number, _ in lines[1:]))

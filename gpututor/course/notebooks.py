"""Jupyter notebooks as submissions: the program in their cells, and notebooks of exercises for students.

Nothing is executed. The program has the cells with the tag `gpututor`. Without such a cell it has the statements that
define the exercise's function and the names that the function uses. Each cell begins with a comment, `# code cell 3`,
and keeps its lines. So line 2 of the cell is the second line below the comment.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpututor.course.model import Exercise
from gpututor.course.workspace import read_submission
from gpututor.errors import WorkspaceError
from gpututor.files import ordinary_and_no_link

ENDING = ".ipynb"
TAG = "gpututor"
MAX_NOTEBOOK_BYTES = 16 << 20
"""Size with outputs, such as images."""
MAX_CODE_BYTES = 256 << 10
"""Size of all code cells."""
MOST_STATEMENTS = 3_000
"""Most statements whose names are analyzed, 0.2 ms each."""
_LONGEST_MAGIC = 1_000
_HEADER = "# From a notebook"
_CELL = re.compile(r"# code cell (\d+)")
_STRING_OR_COMMENT = re.compile(
    r"(?P<long>\"{3}|'{3})(?:\\.|(?!(?P=long)).)*+(?P=long)|#[^\n]*+|\"(?:\\.|[^\"\\\n])*+\"|'(?:\\.|[^'\\\n])*+'",
    re.DOTALL,
)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_PYTHON_MAGICS = ("capture", "prun", "time", "timeit")
"""Cell magics whose other lines are Python."""
_LINE_MAGIC = re.compile(r"(?:[\w, \t]+=[ \t]*)?(?:%{1,2}[A-Za-z]|!|\?{1,2}[\w.]|[\w.]+\?{1,2}[ \t]*$)")


_ANY = "*"
"""Stand-in for the names of `from … import *`."""


class NotebookError(ValueError):
    """A notebook without a program; the message is a sentence."""


@dataclass(frozen=True)
class NotebookProgram:
    """The program of a notebook."""

    text: str
    left_out: tuple[str, ...]
    """Lines of it that are left out, in the order of the cells: `code cell 1, line 1: %matplotlib inline`.

    They are magics, shell lines, and calls of methods of what the function uses.
    """


@dataclass(frozen=True)
class _Cell:
    number: int
    """Number among the code cells, from 1."""
    lines: tuple[str, ...]
    is_tagged: bool
    left_out: Mapping[int, str]
    """Magics and shell lines by their positions in `lines`."""


def program_of(content: bytes, entry: str) -> NotebookProgram:
    """Return the program that defines `entry`, or the whole one if `entry` is empty. Raises `NotebookError`."""
    cells = [_without_magics(number, *cell) for number, cell in enumerate(_code_cells(content), 1)]
    chosen, calls = [cell for cell in cells if cell.is_tagged], dict[tuple[int, int], str]()
    if not chosen and entry:
        chosen, calls = _needed(cells, entry)
    elif not chosen:
        chosen = [cell for cell in cells if any(map(str.strip, cell.lines))]
    if not chosen:
        what = f"defines {entry}()" if entry else "has code"
        raise NotebookError(f"No code cell of the notebook {what}, and no code cell has the tag {TAG!r}.")
    left_out = calls | {(cell.number, position): line for cell in chosen for position, line in cell.left_out.items()}
    places = tuple(
        f"code cell {number}, line {position + 1}: {line}" for (number, position), line in sorted(left_out.items())
    )
    lines = [f"{_HEADER}: code cell{'s' * (len(chosen) > 1)} {', '.join(str(cell.number) for cell in chosen)}."]
    for cell in chosen:
        lines += [f"# code cell {cell.number}", *cell.lines]
    return NotebookProgram("\n".join(lines) + "\n", places)


def read_program(path: Path, exercise: Exercise) -> NotebookProgram:
    """Read a Python file or a notebook, but no link. Raises `WorkspaceError`."""
    if path.suffix.lower() != ENDING:
        return NotebookProgram(read_submission(path, follow_links=False), ())
    try:
        with open(path, "rb", opener=ordinary_and_no_link) as stream:
            content = stream.read(MAX_NOTEBOOK_BYTES + 1)
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.", "Name an ordinary file.") from error
    try:
        return program_of(content, exercise.entry)
    except NotebookError as error:
        advice = f"Save it in Jupyter again, or give the cells of your solution the tag {TAG!r}."
        raise WorkspaceError(f"{path}: {error}", advice) from error


def line_words(lines: Sequence[str], number: int) -> str:
    """Return a line's number, and its place in the notebook that the lines are from: `9 (line 2 of code cell 3)`."""
    if lines and lines[0].startswith(_HEADER):
        for above in range(min(number, len(lines)) - 1, 0, -1):
            if match := _CELL.fullmatch(lines[above - 1]):
                return f"{number} (line {number - above} of code cell {match[1]})"
    return str(number)


def notebook_of(text: str, starter: str = "") -> str:
    """Return a notebook for students: a text as Markdown, and the starter, if any, in a cell with the tag."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "task", "metadata": {}, "source": text},
    ]
    if starter:
        code: dict[str, Any] = {
            "cell_type": "code",
            "execution_count": None,
            "id": "solution",
            "metadata": {"tags": [TAG]},
            "outputs": [],
            "source": starter,
        }
        cells.append(code)
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _code_cells(content: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the source of each code cell, and True if it is tagged. Raises `NotebookError`."""
    if len(content) > MAX_NOTEBOOK_BYTES:
        raise NotebookError(f"The notebook is larger than {MAX_NOTEBOOK_BYTES >> 20} MiB. Clear its outputs.")
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise NotebookError(f"The notebook is not valid JSON ({where}).") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise NotebookError("The notebook has no cells, or is of a format before version 4.")
    size = 0
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            raise NotebookError(f"Cell {number} of the notebook is not a JSON object.")
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise NotebookError(f"Cell {number} of the notebook has no text.")
        metadata = cell.get("metadata")
        tags = metadata.get("tags") if isinstance(metadata, dict) else None
        # JSON can contain half a character, which no file of text can.
        text = source.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        size += len(text)
        if size > MAX_CODE_BYTES:
            raise NotebookError(f"The code in the notebook is larger than {MAX_CODE_BYTES >> 10} KiB.")
        yield text, isinstance(tags, list) and TAG in tags


def _without_magics(number: int, source: str, is_tagged: bool) -> _Cell:
    """Replace magics and shell lines of a cell that is not plain Python. Each begins where a statement may begin."""
    lines = source.split("\n")
    if _parsed(source) is not None:
        return _Cell(number, tuple(lines), is_tagged, {})
    left_out: dict[int, str] = {}
    magic = _CELL_MAGIC.match(source)
    if magic is not None and magic[1] not in _PYTHON_MAGICS:
        return _Cell(number, (f"pass  # left out: %%{magic[1]}",), is_tagged, {0: f"%%{magic[1]}, with its cell"})
    inside, line, end = set[int](), 0, 0
    for match in _STRING_OR_COMMENT.finditer(source):
        line += source.count("\n", end, match.start())
        end = match.end()
        inside.update(range(line + 1, line + 1 + match[0].count("\n")))
        line += match[0].count("\n")
    code = _STRING_OR_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source).split("\n")
    depth, is_continued = 0, False
    for position, text in enumerate(lines):
        words = text.strip()
        is_start = position not in inside and depth <= 0 and not is_continued
        if is_start and len(words) <= _LONGEST_MAGIC and _LINE_MAGIC.match(words):
            left_out[position] = words
            lines[position] = f"{text[: len(text) - len(text.lstrip())]}pass  # left out: {words}"
        elif left_out.get(position - 1, "").endswith("\\"):
            left_out[position] = words
            lines[position] = f"# left out: {words}"
        else:
            depth += sum((sign in "([{") - (sign in ")]}") for sign in code[position])
            is_continued = code[position].endswith("\\")
    return _Cell(number, tuple(lines), is_tagged, left_out)


def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True)
class _Statement:
    """Lines of a cell that belong together, and their names."""

    cell: int
    """Number of the cell."""
    lines: range
    """Positions in the cell."""
    binds: frozenset[str]
    uses: frozenset[str]
    calls: frozenset[str]
    """Names whose methods it calls without using the results, as in `names.append(1)`."""


def _needed(cells: Sequence[_Cell], entry: str) -> tuple[list[_Cell], dict[tuple[int, int], str]]:
    """Return the cells that define `entry` and the names that it needs; all other lines are empty.

    Also return the left-out lines that call methods of these names, by numbers of cells and positions.
    """
    definition = re.compile(rf"\bdef\s+{re.escape(entry)}\b")
    texts = {cell.number: "\n".join(cell.lines) for cell in cells}
    binding: dict[str, list[_Statement]] = defaultdict(list)
    trees = {cell.number: tree for cell in cells if (tree := _parsed(texts[cell.number])) is not None}
    if sum(len(tree.body) for tree in trees.values()) > MOST_STATEMENTS:
        raise NotebookError(f"The notebook has more than {MOST_STATEMENTS} statements.")
    statements = [statement for cell in cells for statement in _statements(cell, trees.get(cell.number))]
    for statement in statements:
        for name in statement.binds:
            binding[name].append(statement)
    broken = {number for number, text in texts.items() if number not in trees and definition.search(text)}
    if not broken and entry not in binding:
        return [], {}
    kept: dict[int, set[int]] = defaultdict(set)
    waiting, seen = [entry, _ANY], {entry, _ANY}
    while waiting:
        for statement in binding.get(waiting.pop(), ()):
            kept[statement.cell].update(statement.lines)
            waiting += statement.uses - seen
            seen |= statement.uses
    needed = []
    for cell in cells:
        if cell.number in broken:
            needed.append(cell)  # Python will say what is wrong with it
        elif positions := kept.get(cell.number):
            lines = tuple(line if position in positions else "" for position, line in enumerate(cell.lines))
            left_out = {position: line for position, line in cell.left_out.items() if position in positions}
            needed.append(replace(cell, lines=lines, left_out=left_out))
    calls = {
        (statement.cell, statement.lines.start): texts[statement.cell].split("\n")[statement.lines.start].strip()
        for statement in statements
        if statement.calls & seen and statement.lines.start not in kept.get(statement.cell, ())
    }
    return needed, calls


def _statements(cell: _Cell, tree: ast.Module | None) -> Iterator[_Statement]:
    spans: list[range] = []
    for statement in tree.body if tree is not None else ():
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        last = statement.end_lineno or statement.lineno
        if spans and first < spans[-1].stop:  # after a semicolon
            spans[-1] = range(spans[-1].start, last)
        else:
            spans.append(range(first, last))
    for span in spans:
        text = "\n".join(cell.lines[span.start : span.stop])
        try:
            table = symtable.symtable(text, "cell", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        symbols = table.get_symbols()
        binds = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        tree = ast.parse(text)
        binds |= set(_changed(tree))
        uses = {symbol.get_name() for symbol in symbols if symbol.is_referenced()} | set(_globals_in(table))
        yield _Statement(cell.number, span, frozenset(binds), frozenset(uses), frozenset(_called(tree)))


def _changed(tree: ast.Module) -> Iterator[str]:
    """Yield names whose attributes or items are assigned, and `_ANY` for an import of everything."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            yield _ANY
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
                if isinstance(target, ast.Name):
                    yield target.id


def _called(tree: ast.Module) -> Iterator[str]:
    """Yield names whose methods are called in statements of their own."""
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    executed = (statement for statement in tree.body if not isinstance(statement, definitions))
    for node in (node for statement in executed for node in ast.walk(statement)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            target = node.value.func
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
                if isinstance(target, ast.Name):
                    yield target.id


def _globals_in(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names of the module that functions and classes in `table` use."""
    for child in table.get_children():
        yield from (symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        yield from _globals_in(child)

"""Running a file as the main program, as `python FILE` does: for exercises whose submission is a script."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import TextIO


class Script:
    """A file that is run afresh, with other arguments, in each call; what it prints is its result."""

    def __init__(self, code: CodeType, path: Path) -> None:
        self._script = code
        self._path = path

    def __call__(self, argv: Sequence[str] = ()) -> str:
        """Run it with `sys.argv[1:]` as given. Raises what it raises, and `SystemExit` for any status but 0."""
        main = ModuleType("__main__")
        main.__file__ = str(self._path)
        with _as_main(main, [self._path.name, *argv]), _printed() as printed:
            try:
                exec(self._script, main.__dict__)
            except SystemExit as ended:
                if ended.code not in (None, 0):
                    raise
        return printed.getvalue()


@contextlib.contextmanager
def _as_main(main: ModuleType, argv: list[str]) -> Iterator[None]:
    before = sys.modules["__main__"], sys.argv
    sys.modules["__main__"], sys.argv = main, argv
    try:
        yield
    finally:
        sys.modules["__main__"], sys.argv = before


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    """What is printed goes on its way, and is kept."""
    kept = io.StringIO()
    with contextlib.redirect_stdout(_Both(sys.stdout, kept)):
        yield kept


class _Both(io.TextIOBase):
    def __init__(self, stream: TextIO, kept: io.StringIO) -> None:
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False

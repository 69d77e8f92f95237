"""The folder or the zip that an instructor brings, below the folders that only hold all the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from gpututor.classroom.intake.entries import Entry, Kind, Refused
from gpututor.classroom.intake.in_folders import entries_of_folder
from gpututor.classroom.intake.in_zips import entries_of_zip, is_zip_name
from gpututor.errors import UsageError
from gpututor.files import ordinary


@dataclass(frozen=True)
class Tree:
    """Where a class lies. It is walked anew each time, and never unpacked."""

    path: Path
    apart_from: Path
    """A folder that is left out: the one of the gradings may lie in it."""
    wrapper: tuple[str, ...] = ()
    """Folders that everything lies in: they are no part of the entries' `parts`."""
    spared: frozenset[tuple[str, ...]] = frozenset()
    """The ways, from the very top, to folders of students that are called as what tools leave behind."""

    def entries(self, *, open_zips: bool = True) -> Iterator[Entry]:
        """Everything in it. With zips closed each of them is a file. Raises `UsageError`."""
        depth = len(self.wrapper)
        for entry in self._all(open_zips):
            if entry.parts[:depth] == self.wrapper and len(entry.parts) > depth:
                yield replace(entry, parts=entry.parts[depth:]) if depth else entry
            elif entry.kind not in (
                Kind.NOISE,
                Kind.PLACE,
            ):  # a name without the wrapper, in a later entry than was looked at
                yield entry

    def _all(self, open_zips: bool) -> Iterator[Entry]:
        with ExitStack() as stack:
            try:
                if self.path.is_dir():
                    found = entries_of_folder(
                        self.path, apart_from=self.apart_from, open_zips=open_zips, spared=self.spared
                    )
                elif is_zip_name(self.path.name):
                    stream = stack.enter_context(open(self.path, "rb", opener=ordinary))
                    found = entries_of_zip(stream, (), "", of_class=True, open_zips=open_zips, spared=self.spared)
                else:
                    raise UsageError(
                        f"{self.path} is neither a folder nor a zip."
                        if self.path.exists()
                        else f"{self.path} is not there.",
                        "Name the folder or the zip with what the class handed in.",
                    )
                for entry in found:
                    if not entry.parts:
                        raise UsageError(f"{self.path} cannot be opened: {entry.refusal}", "Download it again.")
                    yield entry
            except OSError as error:
                raise UsageError(
                    f"{self.path} cannot be read: {error.strerror}.", "Give yourself the right to read it."
                ) from error
            except Refused as error:
                raise UsageError(f"{self.path} cannot be read: {error}", "Download it again.") from error

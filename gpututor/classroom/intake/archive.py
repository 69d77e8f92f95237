"""Folders and zips as one tree of entries, read within limits and never unpacked.

Zips of students are not trusted: names, sizes and counts may be anything.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from gpututor.classroom.intake.names import is_noise, is_program
from gpututor.errors import UsageError
from gpututor.files import ordinary, ordinary_and_no_link
from gpututor.text import truncate

MANIFEST = "gpututor-pack.json"
"""File that `gpututor pack` adds to a student's zip."""
MOST_DEPTH = 32
"""Levels of nested folders."""
MOST_ZIPS_DEEP = 3
"""Levels of nested zips: the class's, a student's, and one that the student put into theirs."""
MOST_ENTRIES = 5_000
"""Entries of a student's zip."""
MOST_BYTES = 1 << 30
"""Bytes of an unpacked student's zip."""
MOST_RATIO = 200
"""Compression ratio of a student's zip; a program shrinks to a quarter."""
LARGEST_ZIP = 128 << 20
"""Bytes of a zip in a zip."""
_LARGEST_MANIFEST = 64 << 10
_MOST_OF_CLASS = 1_000_000
_LARGEST_DIRECTORY = 4 << 20
_LARGEST_DIRECTORY_OF_CLASS = 256 << 20
_SMALL = 8 << 20
_LONGEST_PART = 300
"""Characters of a name that are compared; a longer name is rejected anyway."""
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError,
    RuntimeError, ValueError, OSError,
)  # fmt: skip
"""Exceptions that `zipfile` raises for invalid zips."""
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_BROKEN_ZIP = "It is not a valid zip."
_LINK = "It is a link; links are not followed."
_TOO_DEEP = f"It is more than {MOST_DEPTH} folders deep."
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """An entry that intake refuses to read; the text is a sentence with the reason."""


class EntryKind(StrEnum):
    FILE = "file"
    ARCHIVE = "archive"
    """A zip that is not opened."""
    FOLDER = "folder"
    """A folder that is not opened."""
    PLACE = "place"
    """The folder or zip itself: an empty folder or zip has no other entry."""
    NOISE = "noise"
    """Leftovers of tools; neither read nor opened."""


@dataclass(frozen=True)
class PackManifest:
    """Content of `gpututor-pack.json`. The student may have written anything into it."""

    course: str = ""
    """The course's `id`."""
    student: str = ""
    exercises: Mapping[str, str] = field(default_factory=dict)
    """Keys of exercises, by the paths of their files in the zip."""


def _unreadable() -> BinaryIO:
    raise Refused("It cannot be read.")


@dataclass(frozen=True)
class ArchiveEntry:
    """A file, or an entry that is not opened."""

    parts: tuple[str, ...]
    """Names of the folders and zips on the way, and its own; without `.` and `..`."""
    source: str
    """Place for people: `kim/05/one_big_copy.py`, `kim.zip: one_big_copy.py`. Not yet safe to print."""
    kind: EntryKind = EntryKind.FILE
    refusal: str = ""
    """Sentence with the reason why it is not read."""
    changed_at: float = 0.0
    """Time of the last change, set by the student; only good for ordering copies."""
    open: Callable[[], AbstractContextManager[IO[bytes]]] = _unreadable
    """Opens it, until the next entry is requested. Opening and reading raise `Refused` and `OSError`."""
    packed: PackManifest | None = None


def is_zip_name(name: str) -> bool:
    return name.casefold().endswith(".zip")


def _zip_entries(
    stream: IO[bytes],
    parts: tuple[str, ...],
    source: str,
    *,
    of_class: bool = False,
    open_zips: bool = True,
    depth: int = 1,
) -> Iterator[ArchiveEntry]:
    """Yield everything in a zip; one entry for the whole if it cannot be opened.

    `parts`: names of the folders and zips on the way, and the zip's own. They are empty for the zip `of_class`: the
    instructor made it, and it may be large. `depth`: number of nested zips, including this zip.
    """
    limit = _LARGEST_DIRECTORY_OF_CLASS if of_class else _LARGEST_DIRECTORY
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", _BoundedReader(stream, limit)))
    except (Refused, *_BROKEN) as error:
        yield ArchiveEntry(parts, source, EntryKind.ARCHIVE, str(error) if isinstance(error, Refused) else _BROKEN_ZIP)
        return
    with archive:
        if refusal := _refusal_of_whole(archive.infolist(), of_class):
            yield ArchiveEntry(parts, source, EntryKind.ARCHIVE, refusal)
            return
        if not archive.infolist() and not of_class:
            yield ArchiveEntry(parts, source, EntryKind.PLACE)
        packed = None if of_class else _manifest_in(archive)
        noise: set[tuple[str, ...]] = set()
        for info in sorted(archive.infolist(), key=lambda info: info.orig_filename):
            member = _Member(info, parts, source)
            is_zip = is_zip_name(member.names[-1])
            if (litter := member.noise) is not None:
                if litter not in noise:
                    noise.add(litter)
                    yield ArchiveEntry(litter, member.source, EntryKind.NOISE)
            elif member.is_folder and not member.refusal:
                yield ArchiveEntry(member.parts, member.source, EntryKind.PLACE)
            elif open_zips and is_zip and not member.refusal:
                yield from _nested_zip(archive, member, depth)
            else:
                kind = EntryKind.ARCHIVE if is_zip and member.refusal else EntryKind.FILE
                opener = partial(_open_member, archive, info)
                yield ArchiveEntry(member.parts, member.source, kind, member.refusal, member.changed_at, opener, packed)


class _Member:
    def __init__(self, info: zipfile.ZipInfo, parts: tuple[str, ...], source: str) -> None:
        self.info = info
        self.name = _decoded_name(info)
        self._names = [part for part in self.name.replace("\\", "/").split("/") if part not in ("", ".")]
        names = [part[:_LONGEST_PART] for part in self._names if part != ".."] or ["nameless"]
        self.names = (*names[:MOST_DEPTH], names[-1]) if len(names) > MOST_DEPTH else tuple(names)
        self.zip_parts = parts
        self.parts = (*parts, *self.names)
        self.source = f"{source}: {self.name}" if source else self.name
        self.is_folder = self.name.endswith(("/", "\\"))

    @property
    def refusal(self) -> str:
        if ".." in self._names or _ABSOLUTE.match(self.name):
            return "Its name leads out of the zip."
        if "\0" in self.name:
            return "Its name contains a zero byte."
        if len(self._names) > MOST_DEPTH:
            return _TOO_DEEP
        mode = self.info.external_attr >> 16
        if stat.S_ISLNK(mode):
            return _LINK
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "It is a pipe, a socket or a device, not a file."
        if self.info.flag_bits & 0x41:
            return "It is encrypted."
        if self.info.compress_type not in _READABLE and not self.is_folder:
            return "Its compression is not supported: make an ordinary zip."
        return ""

    @property
    def noise(self) -> tuple[str, ...] | None:
        """Path of the outermost folder or file that a tool left behind."""
        for number, part in enumerate(self.names, 1):
            if is_noise(part, folder=self.is_folder or number < len(self.names)):
                return (*self.zip_parts, *self.names[:number])
        return None

    @property
    def changed_at(self) -> float:
        try:
            return time.mktime((*self.info.date_time, 0, 0, -1))
        except (ValueError, OverflowError):  # a student's zip may contain any date; it only orders copies
            return 0.0


def _decoded_name(info: zipfile.ZipInfo) -> str:
    """Decode as UTF-8 what `zipfile` takes for code page 437: macOS and others do not set the flag for UTF-8."""
    name = info.orig_filename
    if info.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeError:
        return name


def _refusal_of_whole(infos: list[zipfile.ZipInfo], of_class: bool) -> str:
    if len(infos) > (most := _MOST_OF_CLASS if of_class else MOST_ENTRIES):
        return f"It has {len(infos)} files; at most {most} are read."
    if of_class:
        return ""  # `SubmissionCollector` bounds each student's share
    whole = sum(info.file_size for info in infos)
    packed = sum(info.compress_size for info in infos)
    if whole > MOST_BYTES:
        return f"Unpacked, it would be over {MOST_BYTES >> 20} MiB."
    if whole > _SMALL and whole > MOST_RATIO * packed:
        return f"Unpacked, it would be more than {MOST_RATIO} times as large: a zip bomb."
    return ""


def _nested_zip(archive: zipfile.ZipFile, member: _Member, depth: int) -> Iterator[ArchiveEntry]:
    with tempfile.SpooledTemporaryFile(max_size=1 << 20) as copy:
        try:
            if depth >= MOST_ZIPS_DEEP:
                raise Refused("It is a zip inside three other zips; only two are opened.")
            if member.info.file_size > LARGEST_ZIP:
                raise Refused(f"It is larger than {LARGEST_ZIP >> 20} MiB.")
            with _open_member(archive, member.info) as stream:
                shutil.copyfileobj(stream, copy)
        except Refused as error:
            yield ArchiveEntry(member.parts, member.source, EntryKind.ARCHIVE, str(error))
            return
        copy.seek(0)
        yield from _zip_entries(cast("BinaryIO", copy), member.parts, member.source, depth=depth + 1)


def _manifest_in(archive: zipfile.ZipFile) -> PackManifest | None:
    """Read the manifest; None if there is none, or it is broken."""
    try:
        with _open_member(archive, archive.getinfo(MANIFEST)) as stream:
            content = stream.read(_LARGEST_MANIFEST + 1)
        data: Any = json.loads(content) if len(content) <= _LARGEST_MANIFEST else None
    except (KeyError, Refused, ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    course, student = (value if isinstance(value := data.get(key), str) else "" for key in ("course", "student"))
    exercises = data.get("exercises")
    pairs = exercises.items() if isinstance(exercises, dict) else ()
    return PackManifest(course, student, {path: key for path, key in pairs if isinstance(key, str)})


@contextmanager
def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Open a file in a zip. Turn all errors of opening and reading into `Refused`."""
    try:
        with archive.open(info) as stream:
            yield stream
    except _BROKEN as error:
        words = truncate(str(error), 80) or type(error).__name__
        raise Refused(f"It is broken in the zip ({words}).") from error


class _BoundedReader:
    """A stream that rejects a large zip directory, because `zipfile` reads it in one piece."""

    def __init__(self, inner: IO[bytes], limit: int) -> None:
        self._inner = inner
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, size: int = -1) -> bytes:
        content = b"" if size > self._limit else self._inner.read(size if size >= 0 else self._limit + 1)
        if max(size, len(content)) > self._limit:
            raise Refused("Its directory is too large, or broken.")
        return content


def _folder_entries(
    descriptor: int, parts: tuple[str, ...], skipped: os.stat_result, zips: bool
) -> Iterator[ArchiveEntry]:
    """Yield everything below a folder, files first, and close `descriptor`.

    Every name is looked up relative to `descriptor`, so that no folder can become a link meanwhile.
    """
    try:
        folders: list[str] = []
        with os.scandir(descriptor) as scan:
            items = sorted((item.name, item.is_symlink(), item.is_dir(follow_symlinks=False)) for item in scan)
        for name, is_link, is_folder in items:
            path = (*parts, name)
            if is_noise(name, folder=is_folder):
                yield ArchiveEntry(path, "/".join(path), EntryKind.NOISE)
            elif is_link:
                kind_of_file = EntryKind.FILE if is_program(name) else EntryKind.FOLDER
                kind = EntryKind.ARCHIVE if is_zip_name(name) else kind_of_file
                yield ArchiveEntry(path, "/".join(path), kind, _LINK)
            elif is_folder:
                folders.append(name)
            else:
                yield from _file(descriptor, path, zips)
        for name in folders:
            yield from _subfolder(descriptor, (*parts, name), skipped, zips)
    finally:
        os.close(descriptor)


def _subfolder(parent: int, parts: tuple[str, ...], skipped: os.stat_result, zips: bool) -> Iterator[ArchiveEntry]:
    source = "/".join(parts)
    if len(parts) > MOST_DEPTH:
        yield ArchiveEntry(parts, source, EntryKind.FOLDER, _TOO_DEEP)
        return
    try:
        descriptor = os.open(parts[-1], _FOLDER_FLAGS, dir_fd=parent)
        if os.path.samestat(os.fstat(descriptor), skipped):
            os.close(descriptor)
            return
        entries = _folder_entries(descriptor, parts, skipped, zips)
        first = next(entries, None)
    except OSError as error:
        yield ArchiveEntry(parts, source, EntryKind.FOLDER, why_unreadable(error))
        return
    yield first or ArchiveEntry(parts, source, EntryKind.PLACE)
    yield from entries


def _file(parent: int, parts: tuple[str, ...], zips: bool) -> Iterator[ArchiveEntry]:
    name, source = parts[-1], "/".join(parts)
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        yield ArchiveEntry(parts, source, EntryKind.FILE, why_unreadable(error))
        return
    if not stat.S_ISREG(mode := status.st_mode):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        yield ArchiveEntry(parts, source, EntryKind.FILE, f"It is {what}, not a file.")
        return
    opener = partial(_open_file, parent, name)
    if not (zips and is_zip_name(name)):
        yield ArchiveEntry(parts, source, EntryKind.FILE, changed_at=status.st_mtime, open=opener)
        return
    try:
        stream = opener()
    except Refused as error:
        yield ArchiveEntry(parts, source, EntryKind.ARCHIVE, str(error))
        return
    with stream:
        yield from _zip_entries(stream, parts, source)


def _open_file(parent: int, name: str) -> BinaryIO:
    try:
        return open(name, "rb", opener=partial(ordinary_and_no_link, folder=parent))
    except OSError as error:
        raise Refused(_LINK if error.errno == errno.ELOOP else why_unreadable(error)) from error


def why_unreadable(error: OSError) -> str:
    return f"It cannot be read: {(error.strerror or 'unknown error').lower()}."


@dataclass(frozen=True)
class ArchiveTree:
    """The folder or zip of a class. Each walk reads it again; it is never unpacked."""

    path: Path
    skipped: Path
    """A folder that is left out: the gradings may lie in the class's folder."""
    wrapper: tuple[str, ...] = ()
    """The one folder that contains everything, if there is one. Entries' `parts` start below it."""

    def entries(self, *, open_zips: bool = True) -> Iterator[ArchiveEntry]:
        """Yield everything in it. With `open_zips` off each zip is a file. Raises `UsageError`."""
        depth = len(self.wrapper)
        for entry in self._all(open_zips):
            if entry.parts[:depth] == self.wrapper and len(entry.parts) > depth:
                yield replace(entry, parts=entry.parts[depth:]) if depth else entry
            elif entry.kind not in (EntryKind.NOISE, EntryKind.PLACE):  # a later entry than detection reads
                yield entry

    def _all(self, open_zips: bool) -> Iterator[ArchiveEntry]:
        try:
            with ExitStack() as stack:
                if self.path.is_dir():
                    descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    entries = _folder_entries(descriptor, (), os.stat(self.skipped), open_zips)
                elif is_zip_name(self.path.name):
                    stream = stack.enter_context(open(self.path, "rb", opener=ordinary))
                    entries = _zip_entries(stream, (), "", of_class=True, open_zips=open_zips)
                else:
                    what = "is neither a folder nor a zip" if self.path.exists() else "does not exist"
                    advice = "Name the folder or the zip with the submissions."
                    raise UsageError(f"{self.path} {what}.", advice)
                for entry in entries:
                    if not entry.parts:
                        raise UsageError(f"{self.path} cannot be opened: {entry.refusal}", "Download it again.")
                    yield entry
        except OSError as error:
            title = f"{self.path} cannot be read: {error.strerror}."
            raise UsageError(title, "Give yourself read permission.") from error

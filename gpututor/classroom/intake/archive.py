"""Folders and zips as one tree of entries, read within limits and never unpacked.

What students packed is not trusted: names, sizes and counts may be anything.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from gpututor.classroom.intake.names import is_noise
from gpututor.errors import UsageError
from gpututor.files import ordinary, ordinary_and_no_link
from gpututor.text import truncate

MOST_DEPTH = 32
"""Folders in folders."""


class Refused(Exception):
    """Something is not read. Its text says why, in a sentence."""


class Kind(StrEnum):
    FILE = "file"
    ARCHIVE = "archive"
    """A zip that is not opened."""
    FOLDER = "folder"
    """A folder that is not opened."""
    PLACE = "place"
    """A folder or a zip, for its name alone: there may be nothing in it. Others need not have one."""
    NOISE = "noise"
    """What tools leave behind; neither read nor opened."""


def _nothing() -> BinaryIO:
    raise Refused("It cannot be read.")


@dataclass(frozen=True)
class Entry:
    """One file, or one thing that is not opened."""

    parts: tuple[str, ...]
    """The names of the folders and zips on the way to it, and its own; as they were found, without `.` and `..`."""
    source: str
    """Where it is, for people: `kim/05/one_big_copy.py`, `kim.zip: one_big_copy.py`. Not yet safe to print."""
    kind: Kind = Kind.FILE
    refusal: str = ""
    """Why it is not read, a sentence."""
    changed_at: float = 0.0
    """When its bytes changed last, as whoever packed it says; only good for putting copies in order."""
    open: Callable[[], BinaryIO] = _nothing
    """Opens it; only before the next entry is asked for. Raises `Refused` and `OSError`."""
    packed: Packed | None = None
    """What the zip around it says about itself."""


@dataclass(frozen=True)
class Packed:
    """What stands in `gpututor-pack.json`, which `gpututor pack` writes. The student could have written anything."""

    course: str = ""
    """The course's `id`."""
    student: str = ""
    """A name."""
    exercises: tuple[tuple[str, str], ...] = ()
    """Paths in the zip, each with the key of its exercise."""


MANIFEST = "gpututor-pack.json"
_LONGEST = 64 << 10


def manifest_of(stream: BinaryIO) -> Packed | None:
    """None for what is no manifest; what it says is never needed. Whatever `stream` raises passes through."""
    content = stream.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        return None
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    course, student, exercises = data.get("course"), data.get("student"), data.get("exercises")
    return Packed(
        course=course if isinstance(course, str) else "",
        student=student if isinstance(student, str) else "",
        exercises=tuple(_pairs(exercises)),
    )


def _pairs(exercises: object) -> list[tuple[str, str]]:
    """From `{"05_keep…/01_one_big_copy.py": "keep…/one_big_copy"}`."""
    if not isinstance(exercises, dict):
        return []
    return [(path, key) for path, key in exercises.items() if isinstance(key, str)]


MOST_ZIPS_DEEP = 3
"""The class's zip, a student's in it, and one that the student put into theirs."""
MOST_ENTRIES = 5_000
"""In a student's zip."""
MOST_BYTES = 1 << 30
"""That a student's zip may come to when it is unpacked."""
MOST_RATIO = 200
"""By which a student's zip of some size may shrink; a program shrinks to a quarter."""
LARGEST_ZIP = 128 << 20
"""In bytes, of a zip in a zip."""
_MOST_OF_CLASS = 1_000_000
_LARGEST_DIRECTORY = 4 << 20
_LARGEST_DIRECTORY_OF_CLASS = 256 << 20
_SMALL = 8 << 20
_LONGEST_PART = 300
"""Characters of a name that are looked at; one that is longer is refused, and comparing it could take long."""
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError,
    RuntimeError, ValueError, OSError,
)  # fmt: skip
"""What `zipfile` raises at bytes that are no zip."""
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
BROKEN_ZIP = "It is no zip, or a broken one."


def is_zip_name(name: str) -> bool:
    return name.casefold().endswith(".zip")


def entries_of_zip(
    stream: BinaryIO,
    parts: tuple[str, ...],
    shown: str,
    *,
    of_class: bool = False,
    open_zips: bool = True,
    deep: int = 1,
) -> Iterator[Entry]:
    """Everything in a zip; one entry for the whole where it cannot be opened.

    `parts`: the way to it, its own name with it; empty for the zip `of_class`, which the instructor brought, and which
    may be large. `shown`: what the names of people stand behind. `deep`: in how many zips the entries lie.
    """
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", _Bounded(stream, of_class)))
    except Refused as error:
        yield Entry(parts, _without_colon(shown), Kind.ARCHIVE, str(error))
        return
    except _BROKEN:
        yield Entry(parts, _without_colon(shown), Kind.ARCHIVE, BROKEN_ZIP)
        return
    with archive:
        if refusal := _refusal_of_whole(archive.infolist(), of_class):
            yield Entry(parts, _without_colon(shown), Kind.ARCHIVE, refusal)
            return
        if not archive.infolist() and not of_class:
            yield Entry(parts, _without_colon(shown), Kind.PLACE)
        packed = None if of_class else _manifest_in(archive)
        noise: set[tuple[str, ...]] = set()
        for info in sorted(archive.infolist(), key=lambda info: info.orig_filename):
            inside = _Inside(info, parts, shown)
            if (litter := inside.noise) is not None:
                if litter not in noise:
                    noise.add(litter)
                    yield Entry(litter, inside.source, Kind.NOISE)
            elif inside.is_folder and not inside.refusal:
                yield Entry(inside.parts, inside.source, Kind.PLACE)
            elif open_zips and is_zip_name(inside.names[-1]) and not inside.refusal:
                yield from _zip_in_zip(archive, inside, deep)
            else:
                kind = Kind.ARCHIVE if is_zip_name(inside.names[-1]) and inside.refusal else Kind.FILE
                opened = partial(_open_zip, archive, info)
                yield Entry(inside.parts, inside.source, kind, inside.refusal, inside.changed_at, opened, packed)


class _Inside:
    """One entry of a zip, its name taken apart."""

    def __init__(self, info: zipfile.ZipInfo, parts: tuple[str, ...], shown: str) -> None:
        self.info = info
        self.name = _decoded(info)
        self._names = [part for part in self.name.replace("\\", "/").split("/") if part not in ("", ".")]
        names = [part[:_LONGEST_PART] for part in self._names if part != ".."] or ["nameless"]
        self.names = (*names[:MOST_DEPTH], names[-1]) if len(names) > MOST_DEPTH else tuple(names)
        self.parts = (*parts, *self.names)
        self.source = shown + self.name
        self.is_folder = self.name.endswith(("/", "\\"))
        self._above = parts

    @property
    def refusal(self) -> str:
        if ".." in self._names or _ABSOLUTE.match(self.name):
            return "Its name leads out of the zip."
        if "\0" in self.name:
            return "Its name holds a zero byte."
        if len(self._names) > MOST_DEPTH:
            return f"It lies more than {MOST_DEPTH} folders deep."
        mode = self.info.external_attr >> 16
        if stat.S_ISLNK(mode):
            return "It is a link; links are not followed."
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "It is a pipe, a socket or a device, and no file."
        if self.info.flag_bits & 0x41:
            return "It is encrypted."
        if self.info.compress_type not in _READABLE and not self.is_folder:
            return "It is packed in a way that is not read: pack an ordinary zip."
        return ""

    @property
    def noise(self) -> tuple[str, ...] | None:
        """The way to the outermost folder or file that is noise."""
        for number, part in enumerate(self.names, 1):
            if is_noise(part, folder=self.is_folder or number < len(self.names)):
                return (*self._above, *self.names[:number])
        return None

    @property
    def changed_at(self) -> float:
        try:
            return time.mktime((*self.info.date_time, 0, 0, -1))
        except (ValueError, OverflowError):
            return 0.0


def _decoded(info: zipfile.ZipInfo) -> str:
    """Its name. `zipfile` takes bytes that are not said to be UTF-8 for code page 437; macOS and others mean UTF-8."""
    name = info.orig_filename
    if info.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeError:
        return name


def _refusal_of_whole(infos: list[zipfile.ZipInfo], of_class: bool) -> str:
    if len(infos) > (most := _MOST_OF_CLASS if of_class else MOST_ENTRIES):
        return f"It holds {len(infos)} files; {most} are the most that are read."
    if of_class:
        return ""  # each student's share is bounded later
    whole = sum(info.file_size for info in infos)
    packed = sum(info.compress_size for info in infos)
    if whole > MOST_BYTES:
        return f"Unpacked it would be over {MOST_BYTES >> 20} MiB."
    if whole > _SMALL and whole > MOST_RATIO * packed:
        return f"Unpacked it would be more than {MOST_RATIO} times as large: a zip bomb."
    return ""


def _zip_in_zip(archive: zipfile.ZipFile, inside: _Inside, deep: int) -> Iterator[Entry]:
    def refused(why: str) -> Entry:
        return Entry(inside.parts, inside.source, Kind.ARCHIVE, why)

    if deep >= MOST_ZIPS_DEEP:
        yield refused("It is a zip in a zip in a zip in a zip.")
        return
    if inside.info.file_size > LARGEST_ZIP:
        yield refused(f"It is larger than {LARGEST_ZIP >> 20} MiB.")
        return
    with tempfile.SpooledTemporaryFile(max_size=1 << 20) as copy:
        try:
            with _open_zip(archive, inside.info) as stream:
                while part := stream.read(1 << 16):
                    copy.write(part)
        except (Refused, *_BROKEN) as error:
            yield refused(str(error) if isinstance(error, Refused) else BROKEN_ZIP)
            return
        copy.seek(0)
        yield from entries_of_zip(cast("BinaryIO", copy), inside.parts, f"{inside.source}: ", deep=deep + 1)


def _manifest_in(archive: zipfile.ZipFile) -> Packed | None:
    try:
        with _open_zip(archive, archive.getinfo(MANIFEST)) as stream:
            return manifest_of(stream)
    except (KeyError, Refused, *_BROKEN):
        return None


def _open_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    try:
        return cast("BinaryIO", _Telling(archive.open(info)))
    except _BROKEN as error:
        raise Refused(_broken_words(error)) from error


class _Telling(io.RawIOBase):
    """A file in a zip, read with one kind of error."""

    def __init__(self, inner: IO[bytes]) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return self._inner.read(size)
        except _BROKEN as error:
            raise Refused(_broken_words(error)) from error

    def close(self) -> None:
        self._inner.close()
        super().close()


def _broken_words(error: Exception) -> str:
    return f"It is broken in the zip ({truncate(str(error), 80) or type(error).__name__})."


class _Bounded:
    """A stream that `zipfile` cannot be made to read a large directory from: it reads that in one piece."""

    def __init__(self, inner: BinaryIO, of_class: bool) -> None:
        self._inner = inner
        self._most = _LARGEST_DIRECTORY_OF_CLASS if of_class else _LARGEST_DIRECTORY
        self.seek: Callable[..., int] = inner.seek
        self.tell: Callable[[], int] = inner.tell
        self.close: Callable[[], None] = inner.close

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = b"" if size > self._most else self._inner.read(size if size >= 0 else self._most + 1)
        if max(size, len(content)) > self._most:
            raise Refused("It says that it holds more files than are read, or is broken.")
        return content


def _without_colon(shown: str) -> str:
    return shown.removesuffix(": ")


_LINK = "It is a link; links are not followed."
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def entries_of_folder(folder: Path, *, apart_from: Path, open_zips: bool = True) -> Iterator[Entry]:
    """Everything below `folder`: at each place the files first, in the order of their names; without `apart_from`.

    Raises `OSError` where `folder` itself cannot be read.
    """
    try:
        left_out = os.stat(apart_from)
    except OSError:
        left_out = None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return _below(descriptor, (), _How(left_out, open_zips))


@dataclass(frozen=True)
class _How:
    left_out: os.stat_result | None
    open_zips: bool


def _below(descriptor: int, parts: tuple[str, ...], how: _How) -> Iterator[Entry]:
    """Closes `descriptor`. Every name is looked up from there, so that no folder can become a link meanwhile."""
    try:
        folders: list[str] = []
        with os.scandir(descriptor) as found:
            listed = sorted((one.name, one.is_symlink(), one.is_dir(follow_symlinks=False)) for one in found)
        for name, is_link, is_folder in listed:
            here = (*parts, name)
            if is_noise(name, folder=is_folder):
                yield Entry(here, _shown(here), Kind.NOISE)
            elif is_link:
                yield Entry(here, _shown(here), Kind.ARCHIVE if is_zip_name(name) else _kind_of_link(name), _LINK)
            elif is_folder:
                folders.append(name)
            else:
                yield from _file(descriptor, here, how.open_zips)
        for name in folders:
            yield from _folder(descriptor, (*parts, name), how)
    finally:
        os.close(descriptor)


def _kind_of_link(name: str) -> Kind:
    return Kind.FILE if name.casefold().endswith(".py") else Kind.FOLDER


def _folder(parent: int, here: tuple[str, ...], how: _How) -> Iterator[Entry]:
    if len(here) > MOST_DEPTH:
        yield Entry(here, _shown(here), Kind.FOLDER, f"It lies more than {MOST_DEPTH} folders deep.")
        return
    try:
        descriptor = os.open(here[-1], _FOLDER_FLAGS, dir_fd=parent)
        if how.left_out is not None and os.path.samestat(os.fstat(descriptor), how.left_out):
            os.close(descriptor)
            return
        inside = _below(descriptor, here, how)
        first = next(inside, None)
    except OSError as error:
        yield Entry(here, _shown(here), Kind.FOLDER, _why(error))
        return
    yield first or Entry(here, _shown(here), Kind.PLACE)
    yield from inside


def _file(parent: int, here: tuple[str, ...], open_zips: bool) -> Iterator[Entry]:
    name, shown = here[-1], _shown(here)
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        yield Entry(here, shown, Kind.FILE, _why(error))
        return
    if not stat.S_ISREG(status.st_mode):
        yield Entry(here, shown, Kind.FILE, f"It is {_what(status.st_mode)}, and no file.")
        return
    opened = partial(_open_folder, parent, name)
    if not (open_zips and is_zip_name(name)):
        yield Entry(here, shown, Kind.FILE, changed_at=status.st_mtime, open=opened)
        return
    try:
        stream = opened()
    except Refused as error:
        yield Entry(here, shown, Kind.ARCHIVE, str(error))
        return
    with stream:
        yield from entries_of_zip(stream, here, f"{shown}: ")


def _open_folder(parent: int, name: str) -> BinaryIO:
    def opener(path: str, flags: int) -> int:
        return ordinary_and_no_link(path, flags, folder=parent)

    try:
        return open(name, "rb", opener=opener)
    except OSError as error:
        raise Refused(_LINK if error.errno == errno.ELOOP else _why(error)) from error


def _why(error: OSError) -> str:
    return f"It cannot be read: {(error.strerror or 'unknown error').lower()}."


def _what(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _shown(parts: tuple[str, ...]) -> str:
    return "/".join(parts)


@dataclass(frozen=True)
class Tree:
    """Where a class lies. It is walked anew each time, and never unpacked."""

    path: Path
    apart_from: Path
    """A folder that is left out: the one of the gradings may lie in it."""
    wrapper: tuple[str, ...] = ()
    """The folder around everything, if there is one: no part of the entries' `parts`."""

    def entries(self, *, open_zips: bool = True) -> Iterator[Entry]:
        """Everything in it. With zips closed each of them is a file. Raises `UsageError`."""
        depth = len(self.wrapper)
        for entry in self._all(open_zips):
            if entry.parts[:depth] == self.wrapper and len(entry.parts) > depth:
                yield replace(entry, parts=entry.parts[depth:]) if depth else entry
            elif entry.kind not in (Kind.NOISE, Kind.PLACE):  # a later entry than detection reads
                yield entry

    def _all(self, open_zips: bool) -> Iterator[Entry]:
        with ExitStack() as stack:
            try:
                if self.path.is_dir():
                    found = entries_of_folder(self.path, apart_from=self.apart_from, open_zips=open_zips)
                elif is_zip_name(self.path.name):
                    stream = stack.enter_context(open(self.path, "rb", opener=ordinary))
                    found = entries_of_zip(stream, (), "", of_class=True, open_zips=open_zips)
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

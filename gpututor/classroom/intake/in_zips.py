"""Walking a zip without unpacking it: only what is asked for is read, and nothing is ever written where a name says.

What students packed is not trusted: names, sizes and counts may be anything.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, BinaryIO, cast

from gpututor.classroom.intake.entries import MOST_DEPTH, Entry, Kind, Packed, Refused
from gpututor.classroom.intake.manifest import MANIFEST, manifest_of
from gpututor.classroom.intake.names import is_noise
from gpututor.plain_text import shortened

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
    spared: Collection[tuple[str, ...]] = (),
) -> Iterator[Entry]:
    """Everything in a zip; one entry for the whole where it cannot be opened.

    `parts`: the way to it, its own name with it; empty for the zip `of_class`, which the instructor brought, and which
    may be large. `shown`: what the names of people stand behind. `deep`: in how many zips the entries lie.
    `spared`: as in `entries_of_folder`.
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
            inside = _Inside(info, parts, shown, spared)
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
                opened = partial(_opened, archive, info)
                yield Entry(inside.parts, inside.source, kind, inside.refusal, inside.changed_at, opened, packed)


class _Inside:
    """One entry of a zip, its name taken apart."""

    def __init__(
        self, info: zipfile.ZipInfo, parts: tuple[str, ...], shown: str, spared: Collection[tuple[str, ...]]
    ) -> None:
        self.info = info
        self.name = _decoded(info)
        self._names = [part for part in self.name.replace("\\", "/").split("/") if part not in ("", ".")]
        names = [part[:_LONGEST_PART] for part in self._names if part != ".."] or ["nameless"]
        self.names = (*names[:MOST_DEPTH], names[-1]) if len(names) > MOST_DEPTH else tuple(names)
        self.parts = (*parts, *self.names)
        self.source = shown + self.name
        self.is_folder = self.name.endswith(("/", "\\"))
        self._above = parts
        self._spared = spared

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
            way = (*self._above, *self.names[:number])
            if is_noise(part, folder=self.is_folder or number < len(self.names)) and way not in self._spared:
                return way
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
            with _opened(archive, inside.info) as stream:
                while part := stream.read(1 << 16):
                    copy.write(part)
        except (Refused, *_BROKEN) as error:
            yield refused(str(error) if isinstance(error, Refused) else BROKEN_ZIP)
            return
        copy.seek(0)
        yield from entries_of_zip(cast("BinaryIO", copy), inside.parts, f"{inside.source}: ", deep=deep + 1)


def _manifest_in(archive: zipfile.ZipFile) -> Packed | None:
    try:
        with _opened(archive, archive.getinfo(MANIFEST)) as stream:
            return manifest_of(stream)
    except (KeyError, Refused, *_BROKEN):
        return None


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
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
        with _told():
            return self._inner.read(size)

    def close(self) -> None:
        self._inner.close()
        super().close()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise Refused(_broken_words(error)) from error


def _broken_words(error: Exception) -> str:
    return f"It is broken in the zip ({shortened(str(error), 80) or type(error).__name__})."


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

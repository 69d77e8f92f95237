"""Walking a folder without ever following a link, waiting for a pipe, or leaving the folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from gpututor.classroom.intake.entries import MOST_DEPTH, Entry, Kind, Refused
from gpututor.classroom.intake.in_zips import entries_of_zip, is_zip_name
from gpututor.classroom.intake.names import is_noise
from gpututor.files import ordinary_and_no_link

_LINK = "It is a link; links are not followed."
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def entries_of_folder(
    folder: Path, *, apart_from: Path, open_zips: bool = True, spared: Collection[tuple[str, ...]] = ()
) -> Iterator[Entry]:
    """Everything below `folder`: at each place the files first, in the order of their names; without `apart_from`.

    `spared`: the ways to what is no noise, whatever it is called.
    Raises `OSError` where `folder` itself cannot be read.
    """
    try:
        left_out = os.stat(apart_from)
    except OSError:
        left_out = None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return _below(descriptor, (), _How(left_out, open_zips, spared))


@dataclass(frozen=True)
class _How:
    left_out: os.stat_result | None
    open_zips: bool
    spared: Collection[tuple[str, ...]]


def _below(descriptor: int, parts: tuple[str, ...], how: _How) -> Iterator[Entry]:
    """Closes `descriptor`. Every name is looked up from there, so that no folder can become a link meanwhile."""
    try:
        folders: list[str] = []
        with os.scandir(descriptor) as found:
            listed = sorted((one.name, one.is_symlink(), one.is_dir(follow_symlinks=False)) for one in found)
        for name, is_link, is_folder in listed:
            here = (*parts, name)
            if is_noise(name, folder=is_folder) and here not in how.spared:
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
    opened = partial(_opened, parent, name)
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


def _opened(parent: int, name: str) -> BinaryIO:
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

"""Making a zip: the same bytes for the same files on every machine, and never half of one."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from gpututor.errors import UsageError
from gpututor.files import ordinary, write_atomically

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_ORDINARY_FILE = 0o100644 << 16
_UNIX = 3


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip of `files` by their paths, in the order of these. Not compressed: each zlib does it in its own way."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.external_attr, info.create_system = _ORDINARY_FILE, _UNIX
            archive.writestr(info, files[name])
    return whole.getvalue()


def write_zip(path: Path, files: Mapping[str, bytes], is_ours: Callable[[zipfile.ZipFile], bool]) -> None:
    """Put the zip at `path`. Raises `UsageError` where it cannot be written, or what stands there is not to be lost.

    `is_ours`: whether a zip that stands there is one of its kind.
    """
    if path.is_dir() or path.is_symlink() or (path.exists() and not _is_ours(path, is_ours)):
        what = "a folder" if path.is_dir() else "a link" if path.is_symlink() else "another file"
        raise UsageError(f"{path} is {what}, and is not replaced.", "Name another place with --out, or move it away.")
    try:
        write_atomically(path, zip_of(files))
    except OSError as error:
        advice = "Name another place with --out."
        raise UsageError(f"{path}: cannot be written ({error.strerror})", advice) from error


def _is_ours(path: Path, is_ours: Callable[[zipfile.ZipFile], bool]) -> bool:
    try:
        with open(path, "rb", opener=ordinary) as stream, zipfile.ZipFile(stream) as archive:
            return is_ours(archive)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return False

"""Reading one file that was handed in, and saying why it cannot be graded."""

from __future__ import annotations

import codecs
import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake.entries import Entry, Refused
from gpututor.course.exercise import MAX_SUBMISSION_BYTES

_OTHER_ENCODINGS = (  # the longer marks first: one begins as another does
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True)
class Content:
    """What is in a file."""

    sha256: str
    """Empty where it was not read, or not to its end."""
    refusal: str = ""
    size: int = 0


def kept(entry: Entry, folder: ClassFolder) -> Content:
    """Read a file, and keep it below its digest if it can be graded. Raises `OSError` where it cannot be kept."""
    try:
        with entry.open() as stream:
            content = stream.read(MAX_SUBMISSION_BYTES + 1)
    except Refused as error:
        return Content("", str(error))
    except OSError as error:
        return Content("", f"It cannot be read: {(error.strerror or 'unknown error').lower()}.")
    if len(content) > MAX_SUBMISSION_BYTES:
        size_mib = MAX_SUBMISSION_BYTES >> 20
        return Content("", f"The file is over {size_mib} MiB: a solution is a short Python file.", len(content))
    refusal = refusal_of(content)
    content = content.removeprefix(codecs.BOM_UTF8)  # it says nothing, and the grader is given text
    digest = hashlib.sha256(content).hexdigest()
    if not refusal:
        _keep(content, folder.submission(digest))
    return Content(digest, refusal, len(content))


def refusal_of(content: bytes) -> str:
    """Why these bytes are no program, a sentence; empty where they may be one."""
    for mark, name in _OTHER_ENCODINGS:
        if content.startswith(mark):
            return f"The file is {name}, and must be UTF-8."
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        return "The file is empty."
    if (at := content.find(b"\0")) >= 0:
        return f"The file holds NUL bytes (the first is byte {at + 1}): it is no Python file."
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"The file is not UTF-8: byte {error.start + 1}, in line {line}, is 0x{content[error.start]:02x}."
    return ""


def _keep(content: bytes, path: Path) -> None:
    """Whole or not at all. Not flushed to the disk: what a power cut spoils is mended when the class is read again."""
    with suppress(OSError):
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise

"""By what a grading of a class is known, and the seed of its inputs."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from gpututor.errors import CourseError, UsageError
from gpututor.files import create_atomically, ordinary

_SECRET_BYTES = 32
_LEFT_OUT = ("__pycache__",)


def class_secret(path: Path) -> bytes:
    """The secret in `path`, 64 hexadecimal digits; drawn and written there (for its owner only) where nothing is.

    The same secret gives the same seeds on any machine. Raises `UsageError` for a file that holds none.
    """
    if not path.exists():
        before = os.umask(0o077)
        try:
            create_atomically(path, secrets.token_hex(_SECRET_BYTES) + "\n")
        finally:
            os.umask(before)
    try:
        with open(path, encoding="ascii", opener=ordinary) as stream:
            found = bytes.fromhex(stream.read(1024).strip())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the class secret cannot be read ({error})", _ADVICE) from error
    if len(found) != _SECRET_BYTES:
        raise UsageError(f"{path}: a class secret is {2 * _SECRET_BYTES} hexadecimal digits", _ADVICE)
    return found


_ADVICE = "Copy the file from the machine that graded the class first, or move it away for a new secret."


def secret_id(secret: bytes) -> str:
    """Sixteen hexadecimal digits that name a secret, and do not give it away."""
    return hmac.new(secret, b"id", hashlib.sha256).hexdigest()[:16]


def seed_for(secret: bytes, exercise: str, submission: str) -> int:
    """The seed of a grading's inputs, 0 to 2**32 - 1: nobody can know it without the secret.

    `exercise`: its key; `submission`: the SHA-256 of the file.
    """
    digest = hmac.new(secret, f"{exercise}\n{submission}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "big")


def exercise_version(folder: Path) -> str:
    """The SHA-256 of all files of an exercise, their paths with them.

    Raises `CourseError` where a file cannot be read.
    """
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if any(part in _LEFT_OUT or part.startswith(".") for part in relative.parts) or path.is_dir():
            continue
        try:
            with open(path, "rb", opener=ordinary) as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
        whole.update(f"{relative.as_posix()}\n{digest}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()

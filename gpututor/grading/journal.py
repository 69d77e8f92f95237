"""The journal of gradings: a folder with a file for each grading, written whole or not at all, and never overwritten.

A `GradingKey` contains everything that could change a report, so a grading with the same key need not run again. The
judge writes the journal before it reports the end, because its client may be gone by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gpututor import __version__, paths
from gpututor.errors import CourseError, GradingError
from gpututor.files import ordinary, sync_folder, write_atomically
from gpututor.grading.report import Report, upgraded
from gpututor.json_dataclasses import read

VERSION = 1
NOT_OF_THE_GRADER = frozenset(
    (
        *("__main__", "app", "authoring", "classroom", "cli", "doctor", "exercises", "progress", "pytest_plugin"),
        "translation",
    )
)
"""Parts of the package that the judge never imports, and the built-in course, whose exercises have other digests."""


@dataclass(frozen=True)
class GradingKey:
    """Everything that a report depends on."""

    submission: str
    """The SHA-256 of the submitted file."""
    exercise: str
    """`lesson/exercise`."""
    exercise_version: str
    """The SHA-256 of all files in the exercise's folder; see `exercise_digest`."""
    gpututor: str
    """The version of the grader: see `grader_version`."""
    torch: str
    device: str
    """`virtual`, `virtual A100`, or a real device with its model: `cuda NVIDIA H100 80GB HBM3`."""
    isolation: str
    secret: str
    """A digest of the class secret from which seeds are derived."""

    @property
    def name(self) -> str:
        """64 hexadecimal digits: the SHA-256 of the key as JSON with sorted names."""
        import hashlib  # with OpenSSL, 4 ms

        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def file_in(self, journal: Path) -> Path:
        return journal / self.name[:2] / f"{self.name}.json"


def exercise_digest(folder: Path) -> str:
    """Return the SHA-256 of an exercise's files and their paths. Raises `CourseError` for an unreadable file."""
    paths_inside = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    visible = (
        path for path in paths_inside if not any(part == "__pycache__" or part.startswith(".") for part in path.parts)
    )
    return _digest(folder, visible)


def grader_version(package: Path = paths.PACKAGE) -> str:
    """Return the version with a digest of all code and tables that decide verdicts: `0.1.0 1a2b3c4d5e6f`.

    So two states of a clone differ, although both are 0.1.0. Raises `CourseError` for an unreadable file.
    """
    parts = [part for part in package.iterdir() if part.stem not in NOT_OF_THE_GRADER]
    files = (file for part in parts for file in ([part] if part.is_file() else part.rglob("*")))
    code = (file.relative_to(package) for file in files if file.suffix in (".py", ".toml"))
    return f"{__version__} {_digest(package, code)[:12]}"


def _digest(folder: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 of files and their paths, which are relative to `folder`."""
    import hashlib  # with OpenSSL, 4 ms

    whole = hashlib.sha256()
    for relative in sorted(files):
        path = folder / relative
        try:
            with open(path, "rb", opener=ordinary) as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
        whole.update(f"{relative.as_posix()}\n{digest}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


@dataclass(frozen=True)
class JournalEntry:
    """A file of the journal."""

    key: GradingKey
    report: Report
    version: int = VERSION


def write_entry(journal: Path, key: GradingKey, report: Report) -> None:
    """Write a report to the folder `journal` so that it survives a power cut.

    Raises `OSError` if it cannot be written. Then there is no file, or a whole file that may not survive a power cut.
    """
    content = {"key": asdict(key), "report": report.to_json(), "version": VERSION}
    path = key.file_in(journal)
    is_first = not path.parent.exists()
    write_atomically(path, json.dumps(content) + "\n")
    sync_folder(path.parent)
    if is_first:
        sync_folder(journal)


def has_entry(journal: Path, key: GradingKey) -> bool:
    """Return True if the journal has a whole entry with this key; `read_entry`, which takes longer, validates it."""
    try:
        with open(key.file_in(journal), encoding="utf-8", opener=ordinary) as stream:
            data = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("key") == vars(key)


def read_entry(journal: Path, key: GradingKey) -> Report | None:
    """Return the report in the journal; None without one. Raises `GradingError` for a broken file."""
    path = key.file_in(journal)
    try:
        entry = _read(path)
    except FileNotFoundError:
        return None
    if entry.key != key:
        raise GradingError(f"{path}: its key does not match its name", "Move the file away, then grade again.")
    return entry.report


def entries(journal: Path) -> Iterator[JournalEntry | GradingError]:
    """Yield all entries, in the order of the files' names, and an error for each file that cannot be read."""
    for path in sorted(journal.glob("[0-9a-f][0-9a-f]/*.json")):
        try:
            yield _read(path)
        except GradingError as error:
            yield error


def _read(path: Path) -> JournalEntry:
    try:
        with open(path, encoding="utf-8", opener=ordinary) as stream:
            data = json.load(stream)
        if isinstance(data, dict) and isinstance(data.get("report"), dict):
            data = {**data, "report": upgraded(data["report"])}
        return read(JournalEntry, data, "")
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise GradingError(f"{path}: {error}", "Move the file away, then grade again with --resume.") from error

"""Names that others gave: shown on one line, compared, told from the litter of tools, and made into students' ids."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from gpututor.plain_text import shortened, visible

LONGEST_NAME_BYTES = 255
LONGEST_SOURCE = 300
_LONGEST_ID = 80
_NOISE = {
    "__macosx", ".ds_store", "thumbs.db", "desktop.ini", "__pycache__", "drafts", ".backups", ".gpututor.json",
    "gpututor-pack.json", ".git", ".gitignore", ".idea", ".vscode", ".venv", "venv", ".ipynb_checkpoints",
    ".pytest_cache", ".mypy_cache", ".ruff_cache",
}  # fmt: skip
_NOISE_ENDS = (".pyc", ".swp", ".part", "~")
_COPY_MARK = re.compile(
    r"(?: ?\(\d{1,3}\)|-\d{1,3}| - copy(?: ?\(\d{1,3}\))?| copy(?: \d{1,3})?)$",  # browsers, Canvas, Windows, macOS
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """`text` with everything that could steer a terminal or end a line written out."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def is_plain(name: str) -> bool:
    return (name.isascii() and name.isprintable()) or one_line(name) == name


def plain(name: str) -> str:
    """`name` without the characters that `one_line` writes out."""
    return name if is_plain(name) else "".join(filter(is_plain, name))


def shown_source(source: str) -> str:
    """Where something was found: one line, its middle left out where it is long."""
    line = one_line(source)
    half = LONGEST_SOURCE // 2
    return line if len(line) <= LONGEST_SOURCE else f"{line[: half - 1]}…{line[-half:]}"


def is_noise(name: str, *, folder: bool) -> bool:
    """Whether a file or folder of this name is what tools leave behind, and nobody hands in."""
    folded = name.casefold()
    return folded in _NOISE or folded.startswith("._") or (not folder and folded.endswith(_NOISE_ENDS))


def normal(name: str) -> str:
    """How names are compared: small letters; spaces, dots, hyphens and underscores are the same."""
    return re.sub(r"[\s._-]+", "_", unicodedata.normalize("NFC", plain(name)).casefold()).strip("_")


def copy_number(stem: str) -> int:
    """The number in `one_big_copy (2)`; 0 where there is no mark of a copy, and 1 for a mark without a number."""
    found = _COPY_MARK.search(stem)
    if found is None:
        return 0
    digits = re.search(r"\d+", found[0])
    return int(digits[0]) if digits else 1


def without_copy_mark(stem: str) -> str:
    return _COPY_MARK.sub("", stem)


def without_ending(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.casefold().endswith(ending) else name


def oddity(parts: Iterable[str]) -> str:
    """Why a path cannot be taken as it is, a sentence; empty where it can."""
    for part in parts:
        if part.isascii() and part.isprintable() and len(part) <= LONGEST_NAME_BYTES:
            continue
        if len(os.fsencode(part) if not _has_lone_surrogate(part) else part) > LONGEST_NAME_BYTES:
            return f"Its name is longer than {LONGEST_NAME_BYTES} bytes."
        if any("\ud800" <= character <= "\udfff" for character in part):
            return "Its name is not UTF-8."
        if not is_plain(part):
            return "Its name holds control characters, or marks that turn the direction of writing."
    return ""


def _has_lone_surrogate(part: str) -> bool:
    """Whether `os.fsencode` cannot encode it: halves of pairs that stand for no byte."""
    return any("\ud800" <= character <= "\udfff" and not "\udc80" <= character <= "\udcff" for character in part)


def unique_ids(wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The ids of students by their keys, of `(key, the id that would be best)`: one line of text, and no path.

    No two are the same to a file system that knows no case; those that would be have some digits of their key's digest.
    """
    best = {key: _as_id(name) for key, name in wanted}
    alone = {name for name, count in Counter(map(normal_id, best.values())).items() if count == 1}
    own = {key: name for key, name in best.items() if normal_id(name) in alone and len(name) < _LONGEST_ID}
    while True:
        numbered = {key: f"{name}-{_digits(key)}" for key, name in best.items() if key not in own}
        taken = {normal_id(name) for name in numbered.values()}
        alike = {key for key, name in own.items() if normal_id(name) in taken}  # called as if digits were added
        if not alike:
            return {key: own.get(key) or numbered[key] for key in best}
        own = {key: name for key, name in own.items() if key not in alike}


def normal_id(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _as_id(name: str) -> str:
    line = re.sub(r"[/\\]", "-", one_line(name.strip()).strip()).strip(". ")
    return shortened(line, _LONGEST_ID) if line else "nameless"


def _digits(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]

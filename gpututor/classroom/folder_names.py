"""A folder or a file for each student, whatever they are called."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@ +-]{0,79}(?<![. ])")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_@+-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""What no file may be called on Windows."""


def folder_names(ids: Iterable[str]) -> dict[str, str]:
    """For each of the ids a name that any file system takes, and none twice, also where case makes no difference.

    A plain id is its own name; another one gets the beginning of its digest behind.
    """
    every = list(dict.fromkeys(ids))
    counts = Counter(id.casefold() for id in every)
    own = {id for id in every if counts[id.casefold()] == 1 and _is_plain(id)}
    while True:
        taken = {_with_digest(id).casefold() for id in every if id not in own}
        alike = {id for id in own if id.casefold() in taken}  # called as if a digest were behind
        if not alike:
            return {id: id if id in own else _with_digest(id) for id in every}
        own -= alike


def _is_plain(id: str) -> bool:
    return _PLAIN.fullmatch(id) is not None and _RESERVED.fullmatch(id) is None


def _with_digest(id: str) -> str:
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "-".join(filter(None, (_NOT_PLAIN.sub("-", id).strip("-")[:60], digest)))

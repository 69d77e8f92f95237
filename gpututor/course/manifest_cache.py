"""Parsed manifests of the course that was loaded last, by their text: a text that changed is parsed again.

Parsing TOML takes a quarter of the time in which a course loads; reading this cache takes a tenth of that.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpututor.files import read_beginning, write_atomically

LARGEST_BYTES = 8 << 20

Parse = Callable[[str], dict[str, Any]]
"""Returns the document of a TOML text. Raises `ValueError`, or `RecursionError` for deep nesting."""


def parse_toml(text: str) -> dict[str, Any]:
    import tomllib  # 4 ms, which a complete cache saves

    return tomllib.loads(text)


class ManifestCache:
    """Documents by their text. The file may be missing, broken or read-only: then every text is parsed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._used: dict[str, dict[str, Any]] = {}
        self._has_new = False
        self._stored: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):  # without a cache, texts are parsed
            stored = json.loads(read_beginning(file, LARGEST_BYTES))
            self._stored = stored if isinstance(stored, dict) else {}

    def document(self, text: str) -> dict[str, Any]:
        """Return the document of the text, as `parse_toml` does."""
        document = self._stored.get(text)
        if not isinstance(document, dict):
            document = parse_toml(text)
            self._has_new = True
        self._used[text] = document
        return document

    def save(self) -> None:
        """Store the documents that were used, if any of them is new."""
        if self._has_new:
            plain = {text: document for text, document in self._used.items() if _is_json(document)}
            with contextlib.suppress(OSError):  # the next start parses again
                write_atomically(self._file, json.dumps(plain), sync=False)


def _is_json(document: dict[str, Any]) -> bool:
    """Return True unless the document contains a date or a time."""
    try:
        json.dumps(document)
    except TypeError:
        return False
    return True

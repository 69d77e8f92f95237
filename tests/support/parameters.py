"""Parameters of tests of which only some are tried each time, and all in `make test-all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_long(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """The values as parameters: those that are not in `quick` are marked `long`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values]

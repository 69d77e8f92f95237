"""Parameters of tests: `make test` tries some of them, and `make test-all` tries all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_long(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return the values as parameters, and mark all that are not in `quick` as `long`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values]

"""The sum, as a number, without a call of `item`."""

from __future__ import annotations

from typing import Any

from gpututor.checks import source, value


def expected(drawn: dict[str, Any], machine: Any) -> float:
    return float(drawn["numbers"].sum())


checks = [source(forbid=("item",)), value(expected)]

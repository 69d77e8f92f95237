"""A dictionary of plain values."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    return {"words": f"number {drawn['number']}", "half": drawn["number"] / 2}


checks = [value(expected)]

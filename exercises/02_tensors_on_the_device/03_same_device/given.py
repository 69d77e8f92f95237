"""A table and queries on two devices: sometimes the table is larger, sometimes the queries are."""

from __future__ import annotations

from typing import Any

import torch

CASES = (
    {"rows": 60, "queries": 4, "size": 16, "table_place": "device", "queries_place": "cpu"},
    {"rows": 45, "queries": 1, "size": 7, "table_place": "cpu", "queries_place": "device"},
    {"rows": 3, "queries": 29, "size": 5, "table_place": "cpu", "queries_place": "device"},
    {"rows": 30, "queries": 70, "size": 8, "table_place": "cpu", "queries_place": "device"},
    {"rows": 11, "queries": 6, "size": 9, "table_place": "device", "queries_place": "device"},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return two positive tensors, so that no sum cancels, and where each of them belongs."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    chosen = CASES[case]
    return {
        "table": torch.rand(chosen["rows"], chosen["size"], generator=chance),
        "queries": torch.rand(chosen["queries"], chosen["size"], generator=chance),
        "table_place": chosen["table_place"],
        "queries_place": chosen["queries_place"],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put both tensors where they belong."""
    return {
        name: drawn[name].to(device) if drawn[f"{name}_place"] == "device" else drawn[name]
        for name in ("table", "queries")
    }

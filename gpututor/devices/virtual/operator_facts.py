"""Facts about PyTorch's operators, read once from `operators.toml`, which explains them. Imports no torch."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

NO_COST = "free"
ELEMENTWISE = "elementwise"
_PATH = Path(__file__).parent / "operators.toml"
_DTYPE_GROUPS = {
    "integers": ("bool", "uint8", "int8", "int16", "int32", "int64"),
    "half": ("float16", "bfloat16"),
}


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """A row of `operators.toml`."""

    kind: str = ELEMENTWISE
    hidden_view: bool = False
    waits: str = ""
    indices: str = ""
    checks_scalars: bool = False
    unnamed_check: bool = False
    runs_as: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    asserts_index: bool = False
    half_on_cuda: bool = False
    half_in_single: bool = False
    own_kernel: bool = False
    kernel: str = ""
    refusal: str = ""
    """CUDA's message for a dtype that it lacks, if the message does not name the kernel."""
    lacks: tuple[str, ...] = ()
    below_capability: tuple[int, ...] = ()
    reductions: tuple[str, ...] = ()
    skips_empty: bool = False
    cuda_name: str = ""
    reads_shapes: bool = False
    writes: tuple[int, ...] = ()
    overwrites: bool = False
    scratch: tuple[str, ...] = ()
    lists: tuple[int, ...] = ()


@cache
def tables() -> dict[str, Any]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


def short_name(name: str) -> str:
    """Return `mm` for `aten.mm.default`, `aten::mm` and `mm`; `add` for `aten.add_.Tensor`."""
    parts = name.replace("::", ".").split(".")
    bare = parts[1] if len(parts) > 1 else parts[0]
    return bare.removesuffix("_") if not bare.endswith("__") else bare


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """Return the kind of an operator; `elementwise` for one without a row."""
    row: str = tables()["operators"].get(short_name(name), ELEMENTWISE)
    return row.partition(" ")[0]


@lru_cache(maxsize=4096)
def facts_of(name: str) -> OperatorFacts:
    """Return the facts of an operator by its name in the registry, which ends with `_` for an in-place form."""
    rows = tables()["operators"]
    key = name if name in rows else short_name(name)
    row = rows.get(key)
    return _NONE if row is None else _parse(key, row)


@cache
def computed_in_single() -> tuple[str, ...]:
    """Return the names of the operators whose half-precision kernels compute in single precision only on CUDA."""
    return tuple(name for name in tables()["operators"] if facts_of(name).half_in_single)


def sized_by_numbers(name: str) -> bool:
    """Return True if a number among an operator's arguments determines the size of the result."""
    return _sized_by_numbers().match(name) is not None


@cache
def device_checks() -> frozenset[str]:
    """Return the names of CUDA's C++ functions that compare devices."""
    checks: dict[str, str] = tables()["device_checks"]
    return frozenset(f"wrapper_{key}_{name}" for key, names in checks.items() for name in names.split())


@cache
def _sized_by_numbers() -> re.Pattern[str]:
    return re.compile("|".join(tables()["result_size"]["by_numbers"].split()))


_NONE = OperatorFacts()
_LISTS = frozenset({"lacks", "below_capability", "reductions", "writes", "lists", "scratch"})
_NUMBERS = frozenset({"below_capability", "writes", "lists"})


def _parse(name: str, row: str) -> OperatorFacts:
    kind, *words = row.split()
    return OperatorFacts(kind=kind, refusal=tables()["refusals"].get(name, ""), **dict(map(_fact, words)))


def _fact(word: str) -> tuple[str, Any]:
    name, given, value = word.partition("=")
    if not given:
        return name, True
    if name == "arguments":
        return name, dict(pair.split(":") for pair in value.split(","))
    if name not in _LISTS:
        return name, value
    parts = value.split(",")
    if name == "lacks":
        return name, tuple(dtype for part in parts for dtype in _DTYPE_GROUPS.get(part, (part,)))
    return name, tuple(map(int, parts)) if name in _NUMBERS else tuple(parts)

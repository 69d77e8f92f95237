"""Which operators are priced alike, read from `kinds.toml`."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from pathlib import Path

FREE = "free"
ELEMENTWISE = "elementwise"


def short_name(name: str) -> str:
    """`mm` for `aten.mm.default`, `aten::mm` and `mm`; `add` for `aten.add_.Tensor`."""
    parts = name.replace("::", ".").split(".")
    bare = parts[1] if len(parts) > 1 else parts[0]
    return bare.removesuffix("_") if not bare.endswith("__") else bare


@cache
def _lists() -> dict[str, str]:
    text = (Path(__file__).parent / "kinds.toml").read_text(encoding="utf-8")
    return {name: kind for kind, names in tomllib.loads(text).items() for name in names.split()}


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """The kind of kinds.toml that an operator is of; `elementwise` for one that is in no list."""
    return _lists().get(short_name(name), ELEMENTWISE)

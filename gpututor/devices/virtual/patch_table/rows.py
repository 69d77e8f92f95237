"""How a row of the table is written."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual.face.refused import refused, refused_function
from gpututor.devices.virtual.patches import Patch


def each(owner: str, why: str, **replacements: Any) -> list[Patch]:
    """One row for each replaced name of `owner`."""
    return [Patch(owner, name, replacement, why) for name, replacement in replacements.items()]


_NOT_BUILT = "not built: says so instead of failing somewhere inside torch"


def refuse_classes(owner: str, *names: str) -> list[Patch]:
    """Rows for classes that say that they are not supported."""
    return _possible([Patch(owner, name, refused(owner + "." + name), _NOT_BUILT) for name in names])


def refuse(owner: str, *names: str) -> list[Patch]:
    """Rows for functions that say that they are not supported."""
    return _possible([Patch(owner, name, refused_function(owner + "." + name), _NOT_BUILT) for name in names])


def _possible(rows: list[Patch]) -> list[Patch]:
    """Those that this torch has a place for: an older one needs no refusal of what came later."""
    return [row for row in rows if row.has_owner()]

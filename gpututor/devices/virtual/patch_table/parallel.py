"""Several devices, threads and processes."""

from __future__ import annotations

from gpututor.devices.virtual.face import refusals
from gpututor.devices.virtual.patch_table.rows import each, refuse
from gpututor.devices.virtual.patches import Patch

PATCHES: tuple[Patch, ...] = (
    *refuse("torch._C", "_scatter", "_gather", "_broadcast", "_broadcast_coalesced"),
    *each("threading.Thread", "torch's modes belong to one thread", _bootstrap_inner=refusals.thread_bootstrap),
)

"""Which of the box's GPUs a process sees: `CUDA_VISIBLE_DEVICES`, read once, by CUDA's rules."""

from __future__ import annotations

import uuid
from typing import cast

from gpututor.devices.virtual import private

_NAMESPACE = uuid.UUID("6f0f8c2e-6d0c-5b0e-9d2e-0c4f7a3b1d58")


def uuid_of(slot: int) -> uuid.UUID:
    """The identity of the GPU in a slot of the box: always the same, so that it can be named in a variable."""
    return uuid.uuid5(_NAMESPACE, str(slot))


def visible_slots(count: int) -> list[int]:
    """The slots that the process sees of a box with `count` GPUs, in the order of `CUDA_VISIBLE_DEVICES`.

    Numbers and the beginnings of names (`GPU-…`) are understood; the list ends before the first that is no GPU of the
    box, and a GPU that is named twice makes the whole list empty (CUDA C++ Programming Guide, "CUDA Environment
    Variables"; torch/cuda/__init__.py).
    """
    wanted = private.parse_visible_devices()
    if not wanted:
        return []
    if isinstance(wanted[0], str):
        names = [f"GPU-{uuid_of(slot)}" for slot in range(count)]
        return cast(list[int], private.ordinals_of_uuids(wanted, names))
    slots = []
    for slot in wanted:
        if slot >= count:
            break
        slots.append(slot)
    return slots

"""Files."""

from __future__ import annotations

from gpututor.devices.virtual.face import refusals
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch
from gpututor.devices.virtual.saving import serialisation

PATCHES: tuple[Patch, ...] = (
    *each(
        "torch",
        "files in CUDA's format, with the device of each storage",
        save=serialisation.save,
        load=serialisation.load,
    ),
    *each(
        "torch.serialization",
        "the same functions by their other name",
        save=serialisation.save,
        load=serialisation.load,
    ),
    *each("torch._utils", "makes tensors on the device of their storage", _rebuild_tensor=serialisation.rebuild_tensor),
    *each(
        "torch.storage._StorageBase",
        "a map_location function says with these where a storage belongs",
        cuda=serialisation.storage_to_gpu,
        to=serialisation.storage_to,
    ),
    *each(
        "torch.jit",
        "saving and loading scripted device modules ends in a segmentation fault",
        trace=refusals.jit_trace,
        script=refusals.jit_script,
        load=refusals.jit_load,
    ),
)

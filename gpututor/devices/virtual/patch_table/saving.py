"""Files."""

from __future__ import annotations

from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch
from gpututor.devices.virtual.saving import jit, serialisation

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
    *each("torch._utils", "a bit is the values' too", set_tensor_metadata=serialisation.set_metadata),
    *each(
        "torch.storage._StorageBase",
        "a map_location function says with these where a storage belongs",
        cuda=serialisation.storage_to_gpu,
        to=serialisation.storage_to,
    ),
    *each(
        "torch.jit",
        "a trace on a device has its convolutions, and files are read on the CPU first",
        trace=jit.trace,
        trace_module=jit.trace_module,
        load=jit.load,
        freeze=jit.freeze,
        optimize_for_inference=jit.optimize_for_inference,
    ),
    *(
        row
        # The first is what a trace gives; it has the other's methods by copy.
        for kind in ("ScriptModule", "RecursiveScriptModule")
        for row in each(
            f"torch.jit.{kind}",
            "C++ would read memory that virtual tensors do not have",
            code=jit.code,
            save=jit.save,
            save_to_buffer=jit.save_to_buffer,
            _save_for_lite_interpreter=jit.save_for_mobile,
            _save_to_buffer_for_lite_interpreter=jit.save_for_mobile,
        )
    ),
    *each("torch._C.Graph", "it names devices in C++'s words", __str__=jit.graph_text, __repr__=jit.graph_repr),
    *each("torch._C.ScriptMethod", "the interpreter's errors name devices in C++'s words", __call__=jit.method_call),
    *each(
        "torch.jit.ScriptFunction",
        "C++ would read memory that virtual tensors do not have",
        __call__=jit.function_call,
        save=jit.function_save,
        save_to_buffer=jit.function_save_to_buffer,
    ),
)

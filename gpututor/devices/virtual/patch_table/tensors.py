"""Tensors and autograd."""

from __future__ import annotations

from gpututor.devices.virtual.face import host_types, refusals, types, warned
from gpututor.devices.virtual.operators import custom
from gpututor.devices.virtual.patch_table.rows import each, refuse
from gpututor.devices.virtual.patches import Patch
from gpututor.devices.virtual.tensors import gradients, sources, storage

PATCHES: tuple[Patch, ...] = (
    *each("torch.utils.dlpack", "C++ would speak of meta", to_dlpack=refusals.to_dlpack),
    *each("torch", "the same function by its other name", to_dlpack=refusals.to_dlpack),
    *each(
        "torch._C",
        "the same functions by the names that reach C++",
        _to_dlpack=refusals.to_dlpack,
        _to_dlpack_versioned=refusals.to_dlpack_versioned,
    ),
    *each("torch.nested", "would fail an assertion in C++", nested_tensor=refusals.nested_tensor),
    *each(
        "torch", "a device's type is a default dtype and device", set_default_tensor_type=types.set_default_tensor_type
    ),
    *each("torch", "their messages would name the device as C++ does", **host_types.HOST_TENSOR_TYPES),
    *each("torch.Tensor", "C++ does not know the storage of a virtual tensor", set_=sources.set_on_host),
    *each("torch", "the storage of a virtual tensor is one", is_storage=storage.is_storage),
    *each("warnings", "warnings would name a file of ours", _showwarnmsg=warned.show_warning),
    *each(
        "torch.autograd.function.BackwardCFunction",
        "the engine does not compare the devices of virtual gradients",
        apply=gradients.custom_backward,
    ),
    *each("torch.UntypedStorage", "C++ knows no such device", __new__=staticmethod(storage.new_storage)),
    *each(
        "torch.library.Library",
        "the kernels that compute a GPU's values are not to be replaced",
        impl=custom.impl,
        fallback=custom.fallback,
    ),
    *each("torch._ops.OperatorBase", "the same by its other name", py_impl=custom.py_impl),
    *refuse("torch.func", "linearize"),
    *each("torch.autograd", "device names in hooks and custom Functions", _engine_run_backward=refusals.run_backward),
)

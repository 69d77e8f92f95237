"""Private names of PyTorch, in one file, so that a new version breaks only this file.

To support another version of torch, check this file. All names are looked up at import, so a missing name is reported
before anything runs (`options.explain_missing_names`).
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
import torch.cuda._utils
import torch.utils._device

CHECKED_ON = ("2.9.1", "2.14.1")
"""The oldest and the newest torch that the tests were run on: docs/virtual-gpu.md has the figures."""


class _NamedJITFunction(type):
    """Type of the stand-in for Triton's class of kernels in torch's flop counter."""

    def __instancecheck__(cls, instance: object) -> bool:
        return any(base.__name__ == "JITFunction" for base in type(instance).__mro__)


def _flop_registry() -> Any:
    """Return torch's formulas of FLOPs; torch would import Triton for a class, which takes a second."""
    names = ("triton", "triton.runtime", "triton.runtime.jit")
    if not any(name in sys.modules for name in (*names, "torch.utils.flop_counter")):
        stand_ins = {name: ModuleType(name) for name in names}
        stand_ins[names[-1]].JITFunction = _NamedJITFunction("JITFunction", (), {})  # type: ignore[attr-defined]
        sys.modules.update(stand_ins)
        try:
            import_module("torch.utils.flop_counter")
        finally:
            for name in names:
                del sys.modules[name]
    return import_module("torch.utils.flop_counter").flop_registry


flop_registry = _flop_registry()
make_wrapper: Any = torch.Tensor._make_wrapper_subclass
"""Makes a tensor that has sizes, a device and a dtype but no memory."""

make_subclass: Any = torch.Tensor._make_subclass
"""Makes a tensor of another class that shares its memory."""

plain_function: Any = torch._C._disabled_torch_function_impl
"""A `__torch_function__` with which results do not become that class."""

OPERATOR_BASE: Any = torch._ops.OperatorBase
"""The class that `py_impl` belongs to."""

OPERATOR: Any = torch._ops.OpOverload

set_only_lift_cpu_tensors = torch._C._set_only_lift_cpu_tensors
"""Setter: with True, `torch.tensor(values, device=...)` builds the tensor on the CPU and moves it, as for CUDA."""

CUDA_AUTOCAST_KEY = "AutocastCUDA"
CUDA_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
"""The keys that `make_wrapper` gives a tensor so that autocast for CUDA sees it."""


AUTOGRAD_KEY = "AutogradMeta"
"""The key under which C++ looks up an operator above autograd, for `meta`, its device for virtual GPUs."""


def give_kernel(library: Any, operator: Any, function: Any) -> None:
    """Give a composite operator its own kernel on virtual GPUs, which `Library.impl` does not allow."""
    library.m.impl(operator.name(), "Meta", function, False)


def without_cuda_autocast() -> Any:
    """Return a context manager that disables autocast for CUDA."""
    return torch._C._ExcludeDispatchKeyGuard(CUDA_AUTOCAST)


_set_conj: Any = torch._C._set_conj
_set_neg: Any = torch._C._set_neg
_excluded_keys: Any = torch._C._dispatch_tls_local_exclude_set
_included_keys: Any = torch._C._dispatch_tls_local_include_set
_with_keys: Any = torch._C._ForceDispatchKeyGuard
_LAZY_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate).add(torch._C.DispatchKey.Negative)


def follow_bits(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy the conjugate and negative bits of `host` to `tensor`."""
    if tensor.is_conj() != host.is_conj():
        _set_conj(tensor, host.is_conj())
    if tensor.is_neg() != host.is_neg():
        _set_neg(tensor, host.is_neg())


def bits_respected() -> Any:
    """Return a context manager in which C++ resolves conjugate and negative bits; below a mode, kernels ignore them."""
    return _with_keys(_included_keys(), _excluded_keys() - _LAZY_KEYS)


_AUTOGRAD_KEYS = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradFunctionality)
    .add(torch._C.DispatchKey.ADInplaceOrView)
    .add(torch._C.DispatchKey.AutogradOther)
)


def autograd_in_operator() -> Any:
    """Return a context manager in which autograd records CPU tensors, for an operator that runs below autograd."""
    return _with_keys(_included_keys(), _excluded_keys() - _AUTOGRAD_KEYS)


swap_tensor_impl = torch._C._swap_tensor_impl
slots_of: Any = copyreg._slotnames  # type: ignore[attr-defined]
"""Returns the names of a class's slots; `torch.utils.swap_tensors` calls it."""
is_wrapper: Any = torch.utils._python_dispatch.is_traceable_wrapper_subclass
"""Returns True if a tensor consists of others, such as a DTensor."""
_data: Any = torch._C.TensorBase.data
set_data = _data.__set__
get_data = _data.__get__
"""The C++ half of `tensor.data`."""
_grad: Any = torch._C.TensorBase.grad
set_grad = _grad.__set__
"""The function that function modes see for `tensor.grad = ...`."""

format_values: Any = torch._tensor_str._tensor_str
join_suffixes: Any = torch._tensor_str._add_suffixes


def eager_kernel(operator: Any) -> Any:
    """Return the function that computes a higher-order operator from plain ones; None if only a compiler can."""
    return operator.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)


set_metadata: Any = torch._utils.set_tensor_metadata
"""Gives a tensor the conjugate and negative bits of a file."""

storage_loaders = torch.serialization._package_registry
"""(priority, tagger, loader) of each device, tried in order by `torch.save` and `torch.load`."""

new_storage: Any = torch.UntypedStorage.__new__
move_storage: Any = torch.storage._StorageBase.to


def load_shape_rules() -> None:
    """Import Dynamo early: a meta kernel would import it at its first call, and its cycles would hold tensors."""
    import_module("torch._dynamo")


_FakeTensor: Any = torch._subclasses.FakeTensor


def is_fake(tensor: torch.Tensor) -> bool:
    """Return True for a tensor that has only a shape, possibly an unknown one, as `torch.export` uses them."""
    return isinstance(tensor, _FakeTensor)


_mode_of: Any = torch._C._get_dispatch_mode
_FAKE_MODE: Any = torch._C._TorchDispatchModeKey.FAKE


def fake_mode_is_on() -> bool:
    """Return True if operators create tensors that have only a shape, such as while DTensor infers shapes."""
    return _mode_of(_FAKE_MODE) is not None


def decomposition(operator: Any) -> Any:
    """Return PyTorch's decomposition of an operator for compilers, or None."""
    return torch._decomp.decomposition_table.get(operator)


_has_kernel: Any = torch._C._dispatch_has_kernel_for_dispatch_key


def has_composite_kernel(operator: str) -> bool:
    """Return True if PyTorch implements this operator with other operators (CompositeImplicitAutograd)."""
    return bool(_has_kernel(operator, "CompositeImplicitAutograd"))


def is_slow_convolution(image: torch.Tensor, weight: torch.Tensor, options: Any) -> bool:
    """Return True if PyTorch runs a CPU convolution with its slow kernel.

    `options` are all arguments of `aten::convolution` from `bias` on.
    """
    with host_only():
        same_shape = torch.empty(weight.shape, dtype=weight.dtype)
        chosen: Any = torch._C._select_conv_backend(image, same_shape, None, *options[1:7])
    return str(chosen.name) == "Slow2d"


def has_kernel(operator: str) -> bool:
    """Return True if an operator has a kernel on the CPU, and therefore on other devices too."""
    return bool(_has_kernel(operator, "CPU"))


_EXPLICIT_COMPOSITES = (
    torch._C.DispatchKey.CompositeExplicitAutograd,
    torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional,
)


def explicit_composite(operator: Any) -> Any:
    """Return PyTorch's implementation of an operator with other operators, below autograd; None if it has a kernel."""
    for key in _EXPLICIT_COMPOSITES:
        if operator.namespace == "aten" and _has_kernel(operator.name(), key.name):
            return partial(operator._op_dk, key)
    return None


def run_composite(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run C++'s implementation of an operator with other operators; `decompose` would prefer Python code."""
    return operator._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def higher_order_body(operator: Any) -> Any:
    """Return the function that runs a higher-order operator without a compiler; None if the operator rejects modes.

    In `torch.cond`, for example, only the functions that it calls may run in a mode.
    """
    refuses = operator.name() in ("cond", "while_loop", "while_loop_stack_output", "scan")
    return None if refuses else operator.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)


def is_traced(kinds: Any) -> bool:
    """Return True if one of these classes is a fake or functional tensor, with which compilers trace programs."""
    return any(kind.__module__.startswith("torch._subclasses.") for kind in kinds)


profiler_is_on: Any = torch.autograd._profiler_enabled  # type: ignore[attr-defined]
"""Returns True if a profiler sees this thread's operators."""


@contextmanager
def unprofiled() -> Iterator[None]:
    """Let no profiler see this thread's operators in the block."""
    torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch._C._autograd._enable_record_function(True)


_ordinary_dispatch: Any = torch.Tensor.__torch_dispatch__


def has_own_dispatch(kinds: Any) -> bool:
    """Return True if one of these classes of tensors runs operators in its own way."""
    return any(kind.__torch_dispatch__ is not _ordinary_dispatch for kind in kinds)


_has_computed_kernel: Any = torch._C._dispatch_has_computed_kernel_for_dispatch_key
_get_kernel: Any = torch.library.get_kernel
_key_set: Any = torch._C.DispatchKeySet
_dispatch_keys: Any = torch._C.DispatchKey


def kernel_of(operator: Any, key: str) -> Any:
    """Return the kernel that torch runs for tensors of that backend, or None."""
    if not _has_computed_kernel(operator.name(), key):
        return None
    return _get_kernel(operator, key)


def keys(key: str) -> Any:
    return _key_set(getattr(_dispatch_keys, key))


def below_autograd_of(operator: Any) -> Any:
    """Return a context manager that hides a kernel's calls from autograd, if the operator has its own gradient."""
    return torch._C._AutoDispatchBelowAutograd() if _has_kernel(operator.name(), "Autograd") else nullcontext()


def with_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of zeros with memory: below a mode, kernels would read address 0."""
    if not tensor._is_zerotensor():
        return tensor
    return torch.zeros(tensor.size(), dtype=tensor.dtype, device=tensor.device)


def storage_id(tensor: torch.Tensor) -> int:
    """Return an id that CPU tensors have in common if they share memory; valid while one of them lives."""
    return int(tensor.untyped_storage()._cdata)


def default_device() -> torch.device | None:
    """Return the device of `torch.set_default_device` or `with torch.device(...)`, or None."""
    return torch.utils._device.CURRENT_DEVICE


_device_constructors: Any = torch.utils._device._device_constructors


def device_constructors() -> set[Any]:
    """Return the functions that make a tensor from a `device` argument."""
    return set(_device_constructors())


def global_device_context() -> Any:
    """Return the context of `torch.set_default_device` for this thread, or None."""
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


wrapped_storage: Any = torch.TypedStorage._new_wrapped_storage
warn_typed_storage: Any = torch.storage._warn_typed_storage_removal


def forget_global_device_context() -> None:
    """Undo `torch.set_default_device`: torch 2.9 fails on the None that it stores otherwise."""
    if getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", False) is None:
        del torch._GLOBAL_DEVICE_CONTEXT.device_context


real_cuda_has_started: Any = torch.cuda.is_initialized
"""Returns True if this process uses a real GPU, without calling CUDA. Must not be called while patches are on."""

cuda_device_index: Any = torch.cuda._utils._get_device_index
"""Returns the number that a device, a name or a number means; with `optional=True` also for None and `cuda`."""
parse_visible_devices: Any = torch.cuda._parse_visible_devices
ordinals_of_uuids: Any = torch.cuda._transform_uuid_to_ordinals
"""Torch's readers of `CUDA_VISIBLE_DEVICES`."""

running_autograd_node: Any = torch._C._current_autograd_node
"""Returns the node of the backward pass that computes on this thread, or None."""

function_mode_is_on: Any = torch._C._is_torch_function_mode_enabled
no_function_modes: Any = torch._C.DisableTorchFunction
"""A block in which function modes do not see torch's Python calls."""
no_subclass_functions: Any = torch._C.DisableTorchFunctionSubclass
"""A block in which `__torch_function__` of classes is not called, but modes are."""
classes_functions_are_on: Any = torch._C._is_torch_function_enabled
"""Returns False inside a block of `no_subclass_functions`."""
functions_without_class: Any = torch.overrides.get_default_nowrap_functions
"""Returns the functions whose results do not get the class of their arguments."""
function_modes_seen: Any = torch._C._EnableTorchFunction
"""A block in which function modes see torch's Python calls again, inside a block of `no_function_modes`."""
function_modes: Any = torch.overrides._get_current_function_mode_stack
dispatch_modes: Any = torch.utils._python_dispatch._get_current_dispatch_mode_stack
"""Returns this thread's modes of a kind."""
_pop_function_mode: Any = torch._C._pop_torch_function_stack
push_function_mode: Any = torch._C._push_on_torch_function_stack
push_dispatch_mode: Any = torch._C._push_on_torch_dispatch_stack


@contextmanager
def without_function_modes() -> Iterator[None]:
    """Turn off all function modes inside the block, also in threads that copy this thread's state, such as gloo's."""
    modes = [_pop_function_mode() for _ in function_modes()]
    try:
        yield
    finally:
        for mode in reversed(modes):
            push_function_mode(mode)


_fp32_precision: Any = torch._C._get_fp32_precision_getter


def matmul_precision() -> str:
    """Return `tf32` if products of float32 matrices may use TF32, by `torch.backends.cuda.matmul`."""
    return str(_fp32_precision("cuda", "matmul"))


def convolution_precision() -> str:
    """Return the same for convolutions, by `torch.backends.cudnn`."""
    return str(_fp32_precision("cuda", "conv"))


is_left_aligned: Any = torch._nested_tensor_from_mask_left_aligned
"""Returns True if each row of a mask (n, steps) is True up to a length, for data (n, steps, width)."""
_no_dispatch: Any = torch._C._DisableTorchDispatch


@contextmanager
def host_only() -> Iterator[None]:
    """Hide operators from all modes and subclasses inside the block: tensors are plain ones."""
    with no_function_modes(), _no_dispatch():
        yield


def functorch_is_on() -> bool:
    """Return True if a transform of torch.func, such as vmap, is active."""
    return torch._C._functorch.maybe_current_level() is not None


def in_backward() -> bool:
    """Return True if this thread runs a backward pass."""
    return int(torch._C._current_graph_task_id()) != -1


current_node: Any = torch._C._current_autograd_node
"""Returns the node of the autograd graph that this thread runs; None outside of nodes."""
next_sequence_number: Any = torch._C._autograd._get_sequence_nr
"""Returns the number that the next autograd node of this thread gets."""


def sequence_number(node: Any) -> int:
    """Return an autograd node's sequence number in its thread; the largest number for a gradient accumulator."""
    return int(node._sequence_nr())


def device_of_node(node: Any) -> torch.device | None:
    """Return the device, in C++'s notation, of the forward operator's result; None for a node without one."""
    known: tuple[Any, ...] = node._input_metadata
    return known[0].device if known else None


gradient_edge: Any = torch.autograd.graph.get_gradient_edge
at_the_end_of_backward: Any = torch.autograd.Variable._execution_engine.queue_callback
"""Registers a function to run at the end of this thread's backward pass, in the order of registration."""


# Originals of functions that are patched elsewhere.
run_engine: Any = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
parse_to: Any = torch._C._nn._parse_to
to_dlpack: Any = torch._C._to_dlpack
to_dlpack_versioned: Any = torch._C._to_dlpack_versioned
from_dlpack: Any = torch._C._from_dlpack
group_tensors: Any = torch._C._group_tensors_by_device_and_dtype
log_api_usage: Any = torch._C._log_api_usage_once
Generator: Any = torch._C.Generator
ProfilerRange: Any = torch._C._profiler._RecordFunctionFast
profiler_name: Any = torch.autograd.profiler_util._rewrite_name
is_stack_entry: Any = torch.autograd.profiler_util._filter_stack_entry
Graph: Any = torch._C.Graph
ScriptMethod: Any = torch._C.ScriptMethod
ScriptModule: Any = torch.jit._script.RecursiveScriptModule
make_script_stub: Any = torch.jit._recursive.make_stub
device_of, is_cuda_of = torch._C.TensorBase.device, torch._C.TensorBase.is_cuda

has_cudnn: bool = torch._C._has_cudnn
can_share_a_data_slot: Any = torch._has_compatible_shallow_copy_type
"""Returns True if `tensor.data = other` does not change the kind of tensor."""
tree_leaves: Any = torch.utils._pytree.tree_leaves
tree_map: Any = torch.utils._pytree.tree_map
view_again: Any = torch.Tensor._view_func_unsafe
tree_flatten: Any = torch.utils._pytree.tree_flatten
tree_unflatten: Any = torch.utils._pytree.tree_unflatten
keeps_graph: Any = torch._C._autograd._get_current_graph_task_keep_graph
"""Returns True if the running backward pass was started with `retain_graph`."""

# Functions that rebuild a tensor from a storage in files.
rebuild_tensor: Any = torch._utils._rebuild_tensor
rebuild_tensor_v2: Any = torch._utils._rebuild_tensor_v2
rebuild_parameter: Any = torch._utils._rebuild_parameter


# Flattening of small tensors that are copied together between GPUs.
in_chunks: Any = torch._utils._take_tensors
flattened: Any = torch._utils._flatten_dense_tensors
unflattened: Any = torch._utils._unflatten_dense_tensors
in_the_order_of: Any = torch._utils._reorder_tensors_as


def sdp_priority_order() -> list[int]:
    """Return the order of the backends of `scaled_dot_product_attention`, as values of `SDPBackend`."""
    return list(torch._C._get_sdp_priority_order())


def is_of_functorch(tensor: torch.Tensor) -> bool:
    """Return True for a tensor inside `torch.func`: a leaf there has no node of this graph."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))

"""Each public name of `torch.cuda` and related modules is implemented, refused by name, or listed as harmless."""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.cuda.nccl
from torch import nn
from torch.utils import benchmark

from gpututor.devices.virtual import VirtualMachine
from gpututor.devices.virtual.patches import PATCHES

MODULES = (
    *("torch.cuda", "torch.cuda.amp", "torch.cuda.amp.autocast_mode", "torch.cuda.amp.common"),
    *("torch.cuda.amp.grad_scaler", "torch.cuda.comm", "torch.cuda.gds", "torch.cuda.graphs"),
    *("torch.cuda.green_contexts", "torch.cuda.jiterator", "torch.cuda.memory", "torch.cuda.nccl", "torch.cuda.nvtx"),
    *("torch.cuda.profiler", "torch.cuda.random", "torch.cuda.sparse", "torch.cuda.streams", "torch.cuda.tunable"),
    *("torch.accelerator", "torch.accelerator.memory", "torch.accelerator.graphs", "torch.backends.cuda"),
    "torch.backends.cudnn",
)

_THROUGH_C = "its C++ function is replaced"
_PYTHON = "Python that calls functions which are replaced"
_PLAIN = "plain Python that touches no device"
_SWITCH = "a switch of C++ that every build has"
_CLASS = "an exception class, a base class or an enumeration"

SAFE = {
    "torch.cuda": {
        _CLASS: "AcceleratorError DeferredCudaCallError OutOfMemoryError cudaStatus",
        _PYTHON: "StreamContext device device_of get_gencode_flags graph_pool_handle is_tf32_supported "
        "make_graphed_callables memory_cached max_memory_cached set_stream stream "
        "memory_summary memory_stats reset_max_memory_cached reset_max_memory_allocated caching_allocator_disabled "
        "use_mem_pool FloatStorage DoubleStorage HalfStorage BFloat16Storage ByteStorage CharStorage ShortStorage "
        "IntStorage LongStorage BoolStorage ComplexDoubleStorage ComplexFloatStorage",
        _THROUGH_C: "empty_cache get_allocator_backend get_per_process_memory_fraction memory_snapshot "
        "memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats host_memory_stats "
        "host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats reset_peak_host_memory_stats "
        "set_per_process_memory_fraction",
        _PLAIN: "classproperty cast lru_cache",
    },
    "torch.cuda.amp": {_PLAIN: "GradScaler amp_definitely_not_available autocast custom_bwd custom_fwd"},
    "torch.cuda.amp.autocast_mode": {_PLAIN: "autocast custom_bwd custom_fwd"},
    "torch.cuda.amp.common": {_PLAIN: "amp_definitely_not_available find_spec"},
    "torch.cuda.amp.grad_scaler": {_PLAIN: "GradScaler OptState"},
    "torch.cuda.comm": {_PYTHON: "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter"},
    "torch.cuda.gds": {_CLASS: "Storage", _PYTHON: "is_available"},
    "torch.cuda.graphs": {
        _CLASS: "OrderedDict Tensor Union overload",
        _PYTHON: "graph_pool_handle make_graphed_callables",
    },
    "torch.cuda.jiterator": {_CLASS: "Tensor"},
    "torch.cuda.memory": {
        _PYTHON: "memory_cached max_memory_cached memory_summary memory_stats reset_max_memory_cached "
        "reset_max_memory_allocated caching_allocator_disabled "
        "use_mem_pool",
        _THROUGH_C: "empty_cache get_allocator_backend get_per_process_memory_fraction memory_snapshot "
        "memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats host_memory_stats "
        "host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats reset_peak_host_memory_stats "
        "set_per_process_memory_fraction",
        _PLAIN: "signature",
    },
    "torch.cuda.nccl": {_THROUGH_C: "version"},
    "torch.cuda.nvtx": {_PYTHON: "range", _PLAIN: "contextmanager"},
    "torch.cuda.profiler": {_PYTHON: "profile"},
    "torch.cuda.random": {_CLASS: "Tensor", _PYTHON: "current_device device_count is_initialized"},
    "torch.accelerator": {
        _THROUGH_C: "current_accelerator current_device_idx current_device_index current_stream device_count "
        "device_index empty_cache empty_host_cache get_device_capability get_memory_info is_available "
        "max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
        "reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index set_stream synchronize",
        _PLAIN: "cache",
    },
    "torch.accelerator.memory": {
        _THROUGH_C: "empty_cache empty_host_cache get_memory_info max_memory_allocated max_memory_reserved "
        "memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats",
        _CLASS: "OrderedDict",
    },
    "torch.backends.cuda": {
        _SWITCH: "allow_fp16_bf16_reduction_math_sdp cudnn_sdp_enabled enable_cudnn_sdp enable_flash_sdp "
        "enable_math_sdp enable_mem_efficient_sdp flash_sdp_enabled fp16_bf16_reduction_math_sdp_allowed "
        "is_ck_sdpa_available math_sdp_enabled mem_efficient_sdp_enabled "
        "preferred_blas_library preferred_linalg_library preferred_rocm_fa_library sdp_kernel",
        _THROUGH_C: "can_use_cudnn_attention can_use_efficient_attention can_use_flash_attention "
        "is_flash_attention_available",
        _CLASS: "SDPAParams SDPBackend cuBLASModule cuFFTPlanCache cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager",
    },
    "torch.backends.cudnn": {_PLAIN: "flags set_flags init contextmanager"},
}


def _public_callables() -> Iterator[tuple[str, str, Any]]:
    for module in MODULES:
        try:
            members = vars(importlib.import_module(module))
        except ModuleNotFoundError:  # an older torch has fewer
            continue
        for name, result in members.items():
            if name.startswith("_") or isinstance(result, types.ModuleType) or not callable(result):
                continue
            if getattr(result, "__module__", "").startswith(("typing", "collections.abc", "warnings", "_py_warnings")):
                continue
            yield module, name, result


def test_every_public_name_is_patched_or_listed(two_gpus: VirtualMachine) -> None:
    replaced = {(patch.owner, patch.name) for patch in PATCHES}
    safe = {(module, name) for module, why in SAFE.items() for names in why.values() for name in names.split()}
    both = sorted(safe & replaced)
    left = sorted(
        f"{module}.{name}"
        for module, name, _ in _public_callables()
        if (module, name) not in replaced and (module, name) not in safe
    )
    assert not left, left
    assert not both, both


def _timer() -> Any:
    return benchmark.Timer("pass")


def _ones() -> torch.Tensor:
    return torch.ones(2, device="cuda")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")  # torch says so on every device
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.cuda.Event(interprocess=True).ipc_handle(), "torch.cuda.Event.ipc_handle"),
        (lambda: torch.cuda.Event.from_ipc_handle("cuda:0", b""), "torch.cuda.Event.from_ipc_handle"),
        (lambda: torch.cuda.Event(external=True), "torch.cuda.Event(external=True)"),
        (lambda: torch.cuda.nccl.unique_id(), "torch.cuda.nccl.unique_id"),
        (lambda: torch.cuda.nccl.all_reduce([_ones()]), "torch.cuda.nccl.all_reduce"),
        (lambda: torch.func.linearize(torch.sin, _ones()), "torch.func.linearize"),
        (lambda: torch.export.export(nn.ReLU(), (_ones(),)), "torch.export.export on a device"),
        (lambda: _timer().collect_callgrind(1), "torch.utils.benchmark.Timer.collect_callgrind"),
        (lambda: _ones().untyped_storage()._share_cuda_(), "UntypedStorage._share_cuda_"),
        (lambda: torch.nested.nested_tensor([_ones()]), "torch.nested.nested_tensor"),
        (lambda: torch.quantize_per_tensor(_ones(), 1.0, 0, torch.qint8), "quantized"),
        (lambda: torch.cuda.ExternalStream(1), "ExternalStream. Other libraries have no streams here"),
        (lambda: torch.cuda.cudart(), "cudart. It returns a handle for CUDA's own libraries"),
        (lambda: torch.cuda.tunable.enable(), "enable. No kernels are chosen here"),
        (
            lambda: torch.cuda.CUDAPluggableAllocator("a.so", "a", "b"),
            "CUDAPluggableAllocator. There is one allocator: leave it out.",
        ),
    ],
)
def test_unsupported_calls_are_refused_by_name_with_a_reason(
    two_gpus: VirtualMachine, call: Callable[[], object], words: str
) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(words)):
        call()

"""Names as CUDA's own profiler (CUPTI) has them, and as Kineto writes them (libkineto's memcpyKindString)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpututor.devices.virtual.clock import links
from gpututor.trace.events import Kind

if TYPE_CHECKING:
    from gpututor.devices.virtual.profiler.session import Row, Span
    from gpututor.devices.virtual.specs import GpuSpec

DEFAULT_STREAM = 7
"""What CUPTI calls the default stream; streams that a program makes have higher numbers."""
GRAPH_LAUNCH = "cudaGraphLaunch"
_COPIES = ("aten::copy_", "aten::clone")


def is_plain_copy(name: str, args: Any) -> bool:
    """Whether CUDA does this operator by `cudaMemcpyAsync` on one device (aten/src/ATen/native/cuda/Copy.cu)."""
    if name not in _COPIES:
        return False
    tensors = [one for one in args[:2] if isinstance(one, torch.Tensor)]
    first = tensors[0]
    return all(
        one.layout is torch.strided and one.is_contiguous() and one.dtype is first.dtype and one.device == first.device
        for one in tensors
    )


def of_device_work(row: Row, span: Span | None, spec: GpuSpec) -> str:
    """The name of a kernel or copy on the device. A kernel has no name but its operator's."""
    if row.kind is Kind.TRANSFER:
        if row.source != "cpu" and row.target != "cpu":
            return "Memcpy PtoP (Device -> Device)"
        host = "Pinned" if _is_pinned(row, spec) else "Pageable"
        return f"Memcpy HtoD ({host} -> Device)" if row.source == "cpu" else f"Memcpy DtoH (Device -> {host})"
    if span is not None and span.copies_plainly and row.name == span.name:
        return "Memcpy DtoD (Device -> Device)"
    return "virtual::" + row.name.rsplit("::", 1)[-1].rsplit(".", 1)[-1]


def _is_pinned(row: Row, spec: GpuSpec) -> bool:
    """Whether the host's side is page-locked: only then the host goes on at once, or the copy is that fast."""
    if row.asynchronous:
        return True
    way: links.Direction = "h2d" if row.source == "cpu" else "d2h"
    fast, slow = (
        round(links.copy_s(spec, row.size_bytes, pinned=pinned, direction=way) * 1e9) for pinned in (True, False)
    )
    return fast != slow and row.end - row.start == fast


def is_copy(name: str) -> bool:
    return name.startswith("Memcpy")


def of_call(row: Row, name: str) -> str:
    """The call of the CUDA runtime that started it, or that waited; `name` is that of the work on the device."""
    if row.kind is Kind.SYNCHRONISE:
        if row.name in ("torch.cuda.synchronize", "torch.accelerator.synchronize"):
            return "cudaDeviceSynchronize"
        return "cudaEventSynchronize" if "Event" in row.name else "cudaStreamSynchronize"
    if is_copy(name):
        return "cudaMemcpyPeerAsync" if "PtoP" in name else "cudaMemcpyAsync"
    return "cudaLaunchKernel"


def stream_number(stream: int) -> int:
    return DEFAULT_STREAM + stream

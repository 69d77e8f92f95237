"""Every operator that launches a kernel has a price; views launch none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.cuda_errors import NoValues
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.devices.virtual.operator_registry import Operator, operator_of
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import names_of

NEVER_PRICED = {
    "aten::_nested_get_values",
    *("aten::_nested_view_from_jagged", "aten::_make_dual", "aten::_fw_primal", "aten::slice_inverse"),
    *("aten::_sparse_broadcast_to", "aten::_test_autograd_multiple_dispatch_view"),
}
"""Views that never come to be priced, as they are no kernels."""


def operators() -> Iterator[Operator]:
    """Return all aten operators that are registered with torch's dispatcher."""
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        if namespace == "aten":
            yield operator_of(getattr(getattr(torch.ops.aten, packet), overload or "default"))


def test_views_are_free() -> None:
    results = [operator for operator in operators() if not operator.composite and operator.name not in NEVER_PRICED]
    assert len(results) > 2000
    assert [str(item.func) for item in results if item.is_kernel is (kind_of(item.name) == NO_COST)] == []


@pytest.mark.parametrize(
    "split",
    [
        lambda x: torch.unsafe_split(x, 512),
        lambda x: torch.unsafe_split_with_sizes(x, [24, 1000]),
        lambda x: torch.unsafe_chunk(x, 2),
        lambda x: torch.split(x, 512),
    ],
)
def test_split_takes_no_memory_and_launches_nothing(recorder: Recorder, split: Callable[[torch.Tensor], Any]) -> None:
    x = torch.empty(1024, device="cuda")
    before = torch.cuda.memory_allocated()
    parts = split(x)
    assert torch.cuda.memory_allocated() == before
    assert names_of(recorder.complete(), Kind.KERNEL) == []
    parts[0].fill_(3)
    assert x[0] == 3


SPACED: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda z: torch.linspace(z, 1, 3),
    lambda z: torch.linspace(0, z + 1, 3),
    lambda z: torch.linspace(z, z + 1, 3, device="cuda"),
    lambda z: torch.logspace(z, 1, 3),
    lambda z: torch.logspace(z, z + 1, 3, device="cuda"),
]


@pytest.mark.parametrize("call", SPACED)
def test_range_bounds_are_read_on_the_host(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with virtual_gpu(1, "A100"):
        result = call(torch.tensor(0.0, device="cuda"))
        assert result.shape == (3,)
        on_the_gpu = str(result.device) == "cuda:0"
    refusal = contextlib.nullcontext() if on_the_gpu else pytest.raises(NoValues, match="space")
    with virtual_gpu(1, "A100", values=False), refusal:
        # A constant would have a value.
        assert call(torch.rand((), device="cuda")).shape == (3,)


def test_linspace_accepts_bounds_on_the_device(two_gpus: VirtualMachine) -> None:
    z = torch.tensor(0.0, device="cuda")
    assert torch.linspace(z, 1, 3).tolist() == [0, 0.5, 1]
    assert [torch.linspace(z, 1, 3).is_cuda, torch.linspace(z, 1, 3, device="cuda").is_cuda] == [False, True]
    with pytest.raises(RuntimeError, match="only supports 0-dimensional start and end tensors"):
        torch.linspace(torch.ones(2, device="cuda"), 1, 3)

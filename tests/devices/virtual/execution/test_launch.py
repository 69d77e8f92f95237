"""Every operator that launches a kernel has a price and the FLOPs that torch counts; views launch none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.cuda_errors import NoValues
from gpututor.devices.virtual.execution.costs import flops_of
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


aten = torch.ops.aten


class _Counted(TorchDispatchMode):
    """Adds the FLOPs of each operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.flops += flops_of(func, args, kwargs, out)
        return out


def _step(module: torch.nn.Module, image: torch.Tensor) -> None:
    module(image).square().sum().backward()


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (torch.nn.Linear(5, 6), (4, 5)),
        (torch.nn.Conv2d(4, 6, 3, groups=2), (2, 4, 9, 9)),
        (torch.nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 9)),
        (torch.nn.Sequential(torch.nn.Conv3d(2, 3, 3), torch.nn.ReLU()), (1, 2, 5, 5, 5)),
        (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (3, 2, 8)),
    ],
)
def test_a_training_step_has_the_flops_that_torch_counts(module: torch.nn.Module, shape: tuple[int, ...]) -> None:
    image = torch.randn(shape, requires_grad=True)
    with FlopCounterMode(display=False) as theirs, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _step(module, image)
    with _Counted() as ours, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _step(module, image)
    assert ours.flops == theirs.get_total_flops() > 0


def test_fused_attention_on_the_cpu_counts_as_on_a_gpu() -> None:
    query, key = torch.randn(2, 3, 16, 8, requires_grad=True), torch.randn(2, 3, 20, 8, requires_grad=True)
    with _Counted() as counted:
        result = torch.nn.functional.scaled_dot_product_attention(query, key, key)
    assert counted.flops == 2 * (2 * 2 * 3 * 16 * 20 * 8)
    with _Counted() as counted:
        result.sum().backward()
    assert counted.flops == 2.5 * 2 * (2 * 2 * 3 * 16 * 20 * 8)


def test_products_without_a_formula_of_torch_have_one() -> None:
    matrix, vector, batch = torch.randn(4, 5), torch.randn(5), torch.randn(2, 4, 5)
    assert flops_of(aten.mv.default, (matrix, vector), None, matrix @ vector) == 2 * 4 * 5
    assert flops_of(aten.dot.default, (vector, vector), {}, vector @ vector) == 2 * 5
    both = (torch.zeros(4, 4), batch, batch.mT)
    assert flops_of(aten.addbmm.default, both, {}, torch.addbmm(*both)) == 2 * 2 * 4 * 5 * 4


def test_other_operators_have_no_flops_and_unusual_calls_never_raise() -> None:
    values = torch.randn(3)
    calls = (
        (aten.add.Tensor, (values, values)),
        (aten._foreach_add.List, ([values], [values])),
        (aten.sum.default, (values,)),
    )
    for func, args in calls:
        assert flops_of(func, args, {}, values) == 0
    assert flops_of(print, (), None, None) == 0
    odd = (torch.zeros(3), torch.zeros(()), torch.zeros(0, 4), 7, None, "x", [torch.zeros(2)])
    for packet in ("mm", "bmm", "addmm", "convolution", "convolution_backward", "mv", "addbmm", "mkldnn_convolution",
                   "_scaled_dot_product_flash_attention", "_slow_conv2d_forward"):  # fmt: skip
        func = getattr(aten, packet).default
        for item in odd:
            for count in range(4):
                assert flops_of(func, (item,) * count, {}, item) >= 0
                assert flops_of(func, (item,) * count, {"out": item}, None) >= 0
    assert flops_of(aten.mm.default, (torch.zeros(3, 2), torch.zeros(4, 5)), {}, torch.zeros(3, 5)) == 0
    assert flops_of(aten.mm.default, (torch.zeros(3, 0), torch.zeros(0, 4)), {}, torch.zeros(3, 4)) == 0

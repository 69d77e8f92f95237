"""PyTorch's own samples of operators, and each kind of layer, on a virtual GPU, forward and backward."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from tests.support import operator_samples as samples
from tests.support.layer_samples import LAYERS
from tests.support.virtual_gpus import loss_of, tensors_in

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WANTED_SHARE = {torch.float32: 0.98, torch.float16: 0.97, torch.bfloat16: 0.97}
_EVERY = 16
"""The short test takes every nth operator."""
_PARTS = 4
"""Number of parts of the long test, which can run at the same time."""
# The samples of these call unsupported operators, or have tensors in CSR.
_UNSUPPORTED = {
    *(
        "jiterator_unary",
        "jiterator_binary",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary_return_by_ref",
        "jiterator_2inputs_2outputs",
    ),
    *("sparse.mm.reduce", "sparse.sampled_addmm"),
    *("torch.ops.aten._flash_attention_forward", "torch.ops.aten._efficient_attention_forward"),
}

_NOT_ON_THE_CPU = frozenset({"nanmean", "nansum"})
"""The CPU has them for real numbers only."""


def _supported(dtype: torch.dtype) -> list[Any]:
    return [op for op in samples.operators(dtype) if samples.name_of(op) not in _UNSUPPORTED]


def test_sampled_operators_match_the_cpu() -> None:
    operators = _supported(torch.float32)
    drawn = random.Random(2).sample(operators, len(operators) // _EVERY)
    assert len(drawn) > 30
    assert samples.faults(drawn, torch.float32, 2) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_operator_matches_the_cpu(dtype: torch.dtype, part: int) -> None:
    operators = _supported(dtype)[part::_PARTS]
    assert len(operators) > 130
    assert samples.faults(operators, dtype, 4) == {}


@pytest.mark.long
@pytest.mark.parametrize("conjugated", [False, True], ids=["plain", "conjugated"])
def test_every_complex_operator_accepts_conjugate_views(conjugated: bool) -> None:
    operators = [op for op in _supported(torch.complex64) if samples.name_of(op) not in _NOT_ON_THE_CPU]
    assert len(operators) > 370
    # This operator refuses conjugate views on every device.
    assert set(samples.faults(operators, torch.complex64, 4, conjugated)) == ({"view_as_real"} if conjugated else set())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers_are_counted_in_bins(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 1, 2, 5, 9, 9, 10])
    with virtual_gpu():
        x = values.to("cuda", dtype)
        for bins, low, high in ((5, 0, 0), (3, 0, 9), (4, 1, 2), (2, 0, 1)):
            counts = torch.histc(x, bins, low, high)
            assert counts.dtype is dtype
            assert counts.tolist() == torch.histc(values.double(), bins, low, high).tolist()
        assert torch.histc(x[-1:], 2).tolist() == [0, 1]
        assert torch.histc(x, 2, out=torch.empty(0, dtype=dtype, device="cuda")).tolist() == [4, 4]
        with pytest.raises(RuntimeError, match="max must be larger than min"):
            torch.histc(x, 2, 3, 1)
        with pytest.raises(RuntimeError, match="bins must be > 0"):
            torch.histc(x, 0)


def test_complex_sums_leave_out_what_is_partly_nan() -> None:
    nan = float("nan")
    values = [[1 + 2j, complex(nan, 1)], [complex(1, nan), 3j]]
    with virtual_gpu():
        x = torch.tensor(values, device="cuda", requires_grad=True)
        assert torch.nansum(x).item() == 1 + 5j
        assert torch.nansum(x, 0, keepdim=True).tolist() == [[1 + 2j, 3j]]
        out = torch.empty(2, dtype=x.dtype, device="cuda")
        assert torch.nansum(x.detach(), 1, out=out).tolist() == out.tolist() == [1 + 2j, 3j]
        assert torch.nanmean(x).item() == (1 + 5j) / 2
        torch.nansum(x, dtype=torch.complex128).abs().backward()
        assert x.grad is not None
        assert (x.grad != 0).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_few_operators_are_excluded(dtype: torch.dtype) -> None:
    assert len(_supported(dtype)) / len(samples.operators(dtype)) >= WANTED_SHARE[dtype]


def _attention(short: str) -> None:
    query = torch.zeros(1, 4, 2, 8, device="cuda", dtype=torch.float16)
    packet = getattr(torch.ops.aten, short)
    if short == "_flash_attention_forward":
        packet(query, query, query, None, None, 4, 4, 0.0, False, False)
    else:
        packet(query, query, query, None, None, None, None, None, 0.0, 0)


_CALLS: dict[str, Callable[[], object]] = {
    "torch.cuda.jiterator._JittedFunction.__call__": lambda: torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x) { return x; }"
    )(torch.ones(1, device="cuda")),
    "aten::_flash_attention_forward": lambda: _attention("_flash_attention_forward"),
    "aten::_efficient_attention_forward": lambda: _attention("_efficient_attention_forward"),
    "aten::_batch_norm_no_update": lambda: torch.ops.aten._batch_norm_no_update(
        torch.ones(2, 2, device="cuda"), None, None, None, None, 0.5, 0.5
    ),
    "aten::_reshape_alias_copy": lambda: torch.ops.aten._reshape_alias_copy(torch.ones(0, device="cuda"), [1], [1]),
}


def test_each_entry_of_the_list_of_unsupported_calls_is_called_below() -> None:
    listed = {f"aten::{name}" for name in tables()["unsupported"]}
    assert listed == {name for name in _CALLS if name.startswith("aten::")}
    assert all(reason and instead for reason, instead in tables()["unsupported"].values())


@pytest.mark.parametrize("name", _CALLS)
def test_an_unsupported_call_is_refused_by_name(name: str) -> None:
    said = name.replace("aten::", r"torch.ops.aten.")
    with virtual_gpu(), pytest.raises(NotImplementedError, match=said):
        _CALLS[name]()


def test_an_operator_without_a_cpu_kernel_is_refused_by_name() -> None:
    with virtual_gpu(), pytest.raises(NotImplementedError, match=r"torch\.ops\.aten\.cudnn_affine_grid_generator"):
        torch.ops.aten.cudnn_affine_grid_generator(torch.zeros(1, 2, 3, device="cuda"), 1, 1, 2, 2)


GPU = torch.device("cuda:0")


def _inputs(values: tuple[Any, ...], device: str) -> list[torch.Tensor]:
    moved = [tensor.to(device) if device != "cpu" else tensor.clone() for tensor in values]
    return [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in moved]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_gives_the_cpus_results_and_gradients(two_gpus: VirtualMachine, kind: str, training: bool) -> None:
    on_host, values = LAYERS[kind]()
    on_host.train(training)
    on_gpu = copy.deepcopy(on_host).cuda()
    host_inputs, gpu_inputs = _inputs(values, "cpu"), _inputs(values, "cuda")
    expected, got = on_host(*host_inputs), on_gpu(*gpu_inputs)
    for tensor, other in zip(tensors_in(expected), tensors_in(got), strict=True):
        assert other.device == GPU
        assert other.stride() == tensor.stride() or not isinstance(on_gpu, nn.RNNBase)
        torch.testing.assert_close(other.detach().cpu(), tensor.detach())
    if not loss_of(expected).requires_grad:
        return
    loss_of(expected).backward()
    if isinstance(on_gpu, nn.RNNBase) and not training:
        with pytest.raises(RuntimeError, match="cudnn RNN backward can only be called in training mode"):
            loss_of(got).backward()
        return
    loss_of(got).backward()
    pairs = [*zip(host_inputs, gpu_inputs, strict=True)]
    pairs += [*zip(on_host.parameters(), on_gpu.parameters(), strict=True)]
    for item, other in pairs:
        assert other.device == GPU
        assert (item.grad is None) is (other.grad is None)
        if item.grad is not None and other.grad is not None:
            assert other.grad.device == GPU
            torch.testing.assert_close(other.grad.cpu(), item.grad, rtol=1e-4, atol=1e-5)
    for buffer, other in zip(on_host.buffers(), on_gpu.buffers(), strict=True):
        assert other.device == GPU
        torch.testing.assert_close(other.cpu(), buffer)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_moves_both_ways_and_changes_dtype(two_gpus: VirtualMachine, kind: str) -> None:
    layer, _ = LAYERS[kind]()
    before = [*layer.parameters()]
    dtypes = {torch.float64: layer.double, torch.float16: layer.half, torch.bfloat16: layer.bfloat16}
    for device in ("cuda:1", "cpu", "cuda:0"):
        layer.to(device)
        for dtype, convert in dtypes.items():
            convert()
            for tensor in (*layer.parameters(), *layer.buffers()):
                assert tensor.device == torch.device(device)
                assert not tensor.is_floating_point() or tensor.dtype is dtype
    assert all(parameter is other for parameter, other in zip(before, layer.parameters(), strict=True))
    assert all(isinstance(parameter, nn.Parameter) for parameter in layer.parameters())

"""Operators that CUDA runs by kernels of its own; `operators_h200.json` has their measured names."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient, names_of, traced


def _names(recorder: Recorder, kind: Kind, call: Callable[[], object]) -> list[str]:
    first = len(recorder.trace)
    call()
    return names_of(recorder.complete().since(first), kind)


def _normalize(dtype: torch.dtype, training: bool = True) -> torch.Tensor:
    image = torch.randn(2, 3, 4, 4, device="cuda", dtype=dtype, requires_grad=True)
    ones = torch.ones(3, device="cuda")
    return functional.batch_norm(image, ones * 0, ones, ones.clone(), ones.clone(), training)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_batch_norm_is_cudnns(recorder: Recorder, dtype: torch.dtype) -> None:
    assert "aten::cudnn_batch_norm" in _names(recorder, Kind.KERNEL, lambda: _normalize(dtype))
    assert "aten::cudnn_batch_norm_backward" in _names(
        recorder, Kind.KERNEL, lambda: _normalize(dtype).sum().backward()
    )


def test_batch_norm_is_pytorchs_own_where_cudnn_has_none(recorder: Recorder) -> None:
    with torch.backends.cudnn.flags(enabled=False):
        assert "aten::native_batch_norm" in _names(recorder, Kind.KERNEL, lambda: _normalize(torch.float32))
    image = torch.randn(2, 3, 4, 4, device="cuda")
    assert _names(recorder, Kind.KERNEL, lambda: functional.batch_norm(image, None, None, training=True)) == [
        "aten::native_batch_norm"
    ]


@pytest.mark.parametrize("training", [True, False])
def test_cudnns_batch_norm_has_the_cpus_values_and_gradients(two_gpus: VirtualMachine, training: bool) -> None:
    results = []
    for device in ("cpu", "cuda"):
        image = torch.arange(24.0, device=device).view(2, 3, 2, 2).sin().requires_grad_()
        weight = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        mean, variance = torch.zeros(3, device=device), torch.ones(3, device=device)
        out = functional.batch_norm(image, mean, variance, weight, weight, training)
        gradients = torch.autograd.grad((out * out).sum(), (image, weight))
        results.append([value.detach().cpu() for value in (out, mean, variance, *gradients)])
    torch.testing.assert_close(*results)


def test_rms_norm_is_one_kernel_each_way_with_the_cpus_gradients(recorder: Recorder) -> None:
    gradients = []
    for device in ("cpu", "cuda"):
        rows = torch.arange(24.0, device=device).view(4, 6).cos().requires_grad_()
        weight = torch.linspace(1, 2, 6).to(device).requires_grad_()
        first = len(recorder.trace)
        out = functional.rms_norm(rows, (6,), weight)
        gradients.append([part.cpu() for part in torch.autograd.grad(out, (rows, weight), torch.ones_like(out))])
        names = [event.name for event in recorder.complete().since(first) if "rms_norm" in event.name]
        assert names == (["aten::_fused_rms_norm", "aten::_fused_rms_norm_backward"] if device == "cuda" else [])
    torch.testing.assert_close(*gradients)


def test_one_hot_writes_into_zeros_and_asserts_its_classes(recorder: Recorder) -> None:
    classes = torch.tensor([2, 0], device="cuda")
    assert _names(recorder, Kind.KERNEL, lambda: functional.one_hot(classes, 3)) == ["aten::zeros", "aten::scatter_"]
    assert functional.one_hot(classes).tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(RuntimeError, match="device-side assert"):
        functional.one_hot(classes, 2)


_WAITS: dict[str, tuple[Callable[[torch.Tensor], object], list[str]]] = {
    "one sample": (lambda x: torch.multinomial(x, 1), ["aten::multinomial"]),
    "several samples with replacement": (lambda x: torch.multinomial(x, 4, replacement=True), []),
    "deviations": (lambda x: torch.normal(0.0, x), ["aten::normal"]),
    "a number as the deviation": (lambda x: torch.normal(x, 1.0), []),
    "a histogram": (lambda x: torch.histc(x), ["aten::histc"]),
    "known bounds": (lambda x: torch.histc(x, min=0, max=2), []),
    "many elements to look for": (lambda x: torch.isin(x[:2], x), ["aten::isin"]),
    "few elements to look for": (lambda x: torch.isin(x, x[:2]), []),
    "repeats": (lambda x: torch.repeat_interleave(x, x.long()), ["aten::repeat_interleave"]),
    "a known length": (lambda x: torch.repeat_interleave(x, x.long(), output_size=x.numel()), []),
}


@pytest.mark.parametrize(("call", "waits"), _WAITS.values(), ids=_WAITS)
def test_the_host_waits_only_for_values_that_the_operator_checks_or_counts(
    recorder: Recorder, call: Callable[[torch.Tensor], object], waits: list[str]
) -> None:
    values = torch.ones(50, device="cuda")
    assert _names(recorder, Kind.SYNCHRONISE, lambda: call(values)) == waits


_MIB = 2**20
_SCRATCH: dict[str, tuple[Callable[[torch.Tensor], object], int]] = {
    "a loss before its mean": (lambda x: functional.huber_loss(x, x), 4 * _MIB),
    "a mean that keeps the memory of the losses": (lambda x: functional.mse_loss(x, x), 4 * _MIB),
    "a loss without a mean": (lambda x: functional.mse_loss(x, x, reduction="none"), 4 * _MIB),
    "a mask as int64 before its sum": (lambda x: (x > 0).sum(), 9 * _MIB),
    "differences from the largest": (lambda x: torch.logsumexp(x.view(1024, 1024), 0), 4 * _MIB),
    "a sum of floats": (lambda x: x.sum(), 0),
    "a sum in single precision": (lambda x: x.view(torch.float16).sum(dtype=torch.float32), 0),
}


@pytest.mark.parametrize("name", _SCRATCH)
def test_an_operator_takes_scratch_memory_while_it_runs(two_gpus: VirtualMachine, name: str) -> None:
    call, peak = _SCRATCH[name]
    values = torch.ones(_MIB, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call(values)
    assert torch.cuda.memory_allocated() == before
    assert 0 <= torch.cuda.max_memory_allocated() - before - peak <= 16 * 1024


FUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "function": nn.functional.dropout,
    "layer": nn.Dropout(0.3),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, True),
    "script": lambda x: torch.jit.script(nn.Dropout(0.5))(x),
}
COMPOSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole features": lambda x: nn.functional.dropout2d(x.view(2, 2, -1, 4)),
    "all": lambda x: nn.functional.dropout(x, 1.0),
    "alpha": lambda x: nn.functional.alpha_dropout(x, training=True),
    "in place": lambda x: nn.functional.dropout(x * 1, inplace=True),
}


def _needing_gradients(count: int = 1 << 20) -> torch.Tensor:
    return torch.ones(count, device="cuda", requires_grad=True)


@pytest.mark.parametrize("way", FUSED)
def test_dropout_keeps_a_mask_of_bytes_for_its_backward_pass(two_gpus: VirtualMachine, way: str) -> None:
    x = _needing_gradients()
    size = x.nbytes
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = FUSED[way](x)
    assert torch.cuda.max_memory_allocated() - before == size + size // 4
    assert torch.cuda.memory_allocated() - before == size + size // 4
    assert type(out.grad_fn).__name__ == "NativeDropoutBackward0"
    out.sum().backward()
    assert torch.equal(gradient(x), out.detach())


@pytest.mark.parametrize("way", COMPOSED)
def test_other_kinds_of_dropout_are_composed(two_gpus: VirtualMachine, way: str) -> None:
    name = type(COMPOSED[way](_needing_gradients(64)).grad_fn).__name__
    assert "Dropout" not in name


def test_dropout_without_effect_and_on_the_cpu_is_unchanged(two_gpus: VirtualMachine) -> None:
    x = _needing_gradients(8)
    assert nn.functional.dropout(x, 0.0) is x
    assert nn.functional.dropout(x, training=False) is x
    empty = torch.ones(0, device="cuda")
    assert nn.functional.dropout(empty).shape == (0,)
    on_host = nn.functional.dropout(torch.ones(8, requires_grad=True))
    assert type(on_host.grad_fn).__name__ == "MulBackward0"
    assert nn.functional.dropout(torch.ones(8, device="meta")).is_meta
    each = torch.vmap(nn.functional.dropout, randomness="different")(torch.ones(2, 3, device="cuda"))
    assert set(each.flatten().tolist()) <= {0.0, 2.0}


def test_dropout_and_its_backward_pass_are_one_kernel_each() -> None:
    def program() -> None:
        nn.functional.dropout(_needing_gradients(8)).backward(torch.ones(8, device="cuda"))
        with torch.inference_mode():
            nn.functional.dropout(torch.ones(8, device="cuda"))

    names = [event.name for event in traced(program) if "dropout" in event.name or "bernoulli" in event.name]
    assert names == ["aten::native_dropout", "aten::native_dropout_backward", "aten::native_dropout"]


def test_leaving_the_virtual_gpu_removes_its_dropout_kernel() -> None:
    with virtual_gpu():
        assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layer", [nn.LayerNorm(4), nn.GroupNorm(1, 4)], ids=["layer norm", "group norm"])
def test_norms_take_parameters_of_the_inputs_dtype_only(
    two_gpus: VirtualMachine, layer: nn.Module, dtype: torch.dtype
) -> None:
    layer = copy.deepcopy(layer).cuda()
    x = torch.ones(2, 4, 4, device="cuda", dtype=dtype)
    with pytest.raises(RuntimeError, match=r"expected scalar type (Half|BFloat16) but found Float"):
        layer(x)
    with torch.autocast("cuda", dtype):
        assert layer(x).dtype is torch.float32
    assert layer.to(dtype)(x).dtype is dtype


def test_least_squares_have_one_driver_which_computes_no_rank(two_gpus: VirtualMachine) -> None:
    left, right = torch.randn(4, 3, device="cuda"), torch.randn(4, 2, device="cuda")
    result = torch.linalg.lstsq(left, right)
    assert [tuple(part.shape) for part in result] == [(3, 2), (2,), (0,), (0,)]
    torch.testing.assert_close(result.solution.cpu(), torch.linalg.lstsq(left.cpu(), right.cpu()).solution)
    for column in (torch.ones(3, 1, device="cuda"), torch.ones(3, device="cuda")):
        singular = torch.linalg.lstsq(torch.ones(3, 2, device="cuda"), column)
        assert singular.solution.shape == (2, *column.shape[1:])
        assert not singular.solution.isfinite().all()
    with pytest.raises(RuntimeError, match="`driver` other than `gels` is not supported on CUDA"):
        torch.linalg.lstsq(left, right, driver="gelsd")


def test_decompositions_take_cudas_options_and_have_its_layout(two_gpus: VirtualMachine) -> None:
    x = torch.randn(4, 6, device="cuda")
    for driver in (None, "gesvd", "gesvdj", "gesvda"):
        left, values, right = torch.linalg.svd(x, full_matrices=False, driver=driver)
        assert (left.stride(), right.stride()) == ((1, 4), (6, 1))
        torch.testing.assert_close((left * values) @ right, x)
        assert torch.linalg.svdvals(x, driver=driver).shape == (4,)
    assert torch.svd(x)[2].stride() == (1, 6)
    with pytest.raises(RuntimeError, match="unknown svd driver gels"):
        torch.linalg.svd(x, driver="gels")
    for decompose in (torch.linalg.lu, torch.linalg.lu_factor):
        assert decompose(x)[0].is_cuda
        with pytest.raises(NotImplementedError, match="pivot=False"):
            decompose(x, pivot=False)


@pytest.mark.parametrize(
    ("left", "right", "problem"),
    [
        ((16, 8), (8, 8), r"self.size\(0\) needs to be greater than 16, but got 16"),
        ((17, 12), (12, 8), r"self.size\(1\) needs to be greater than 0 and a multiple of 8, but got 12"),
        ((17, 8), (8, 4), r"mat2.size\(1\) needs to be greater than 0 and a multiple of 8, but got 4"),
    ],
)
def test_products_of_integers_have_cublas_sizes(
    two_gpus: VirtualMachine, left: tuple[int, int], right: tuple[int, int], problem: str
) -> None:
    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(shape, dtype=torch.int8, device="cuda")

    with pytest.raises(RuntimeError, match=problem):
        torch._int_mm(ones(*left), ones(*right))
    assert torch._int_mm(ones(17, 8), ones(8, 16)).unique().tolist() == [8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.Linear(3, 3, bias=False).cuda().half()(torch.ones(2, 3, device="cuda")),
            "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half",
        ),
        (
            lambda: functional.conv2d(torch.ones(1, 1, 3, 3).cuda().half(), torch.ones(1, 1, 2, 2).cuda()),
            "Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        ),
        (lambda: nn.Embedding(3, 3).cuda()(torch.ones(2, device="cuda")), "but got torch.cuda.FloatTensor instead"),
        (
            lambda: nn.BatchNorm1d(3).cuda().half()(torch.ones(2, 3, device="cuda")),
            "expected scalar type Float but found Half",
        ),
        (
            lambda: torch.ones(2, device="cuda", dtype=torch.uint16) + 1,
            "\"ufunc_add_CUDA\" not implemented for 'UInt16'",
        ),
    ],
)
def test_mixed_dtypes_are_refused_in_cudas_words(
    two_gpus: VirtualMachine, call: Callable[[], object], message: str
) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call()


def test_a_probability_above_one_fails_an_assertion_on_the_device() -> None:
    with virtual_gpu():
        with pytest.raises(RuntimeError, match="device-side assert"):
            torch.bernoulli(torch.tensor([2.0], device="cuda"))
        with pytest.raises(RuntimeError, match="device-side assert"):
            torch.ones(1, device="cuda")

"""Half-precision kernels that compute in single precision on CUDA, by `test_grid_sample_half_precision` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("two_gpus")

Call = Callable[..., Any]


def grid_sample(mode: str) -> Call:
    return lambda data, grid: F.grid_sample(data, grid, mode=mode, align_corners=False)


def batch_norm(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True)


CALLS: dict[str, tuple[Call, tuple[tuple[int, ...], ...]]] = {
    "grid_sample": (grid_sample("bilinear"), ((4, 8, 16, 16), (4, 8, 8, 2))),
    "grid_sample of volumes": (grid_sample("bilinear"), ((2, 4, 8, 8, 8), (2, 4, 4, 4, 3))),
    "grid_sample, bicubic": (grid_sample("bicubic"), ((4, 8, 16, 16), (4, 8, 8, 2))),
    "log_softmax": (lambda x: F.log_softmax(x, 1), ((8, 300),)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), ((2, 3, 9, 10, 11),)),
    "batch_norm": (batch_norm, ((64, 8, 5, 5),)),
    "conv_transpose3d": (F.conv_transpose3d, ((2, 8, 5, 5, 5), (8, 4, 3, 3, 3))),
    "interpolate, bicubic": (lambda x: F.interpolate(x, scale_factor=2.3, mode="bicubic"), ((2, 3, 8, 8),)),
    "interpolate, trilinear": (lambda x: F.interpolate(x, scale_factor=2.3, mode="trilinear"), ((2, 3, 6, 6, 6),)),
    "logit": (torch.logit, ((500,),)),
    "sub with alpha": (lambda x, y: torch.sub(x, y, alpha=1.7), ((500,), (500,))),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_exact_ones_rounded_once(name: str, dtype: torch.dtype) -> None:
    call, shapes = CALLS[name]
    inputs = [torch.rand(shape).to(dtype) for shape in shapes]
    if "grid" in name:
        inputs[1] = inputs[1] * 2 - 1
    exact, got = call(*(x.double() for x in inputs)), call(*(x.cuda() for x in inputs))
    assert got.dtype is dtype
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(got.cpu().double(), exact.to(dtype).double(), rtol=step, atol=step / 64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(32, 64, 16, 16), (4, 8, 8, 8, 8)])
def test_gradients_of_grid_sample_are_accumulated_in_single_precision(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    dims = len(shape) - 2
    data, grid = torch.randn(shape).to(dtype), (torch.rand(shape[0], *(8,) * dims, dims) * 2 - 1).to(dtype)

    def gradients(device: str, wide: torch.dtype) -> list[torch.Tensor]:
        inputs = [x.to(device, wide).requires_grad_() for x in (data, grid)]
        F.grid_sample(inputs[0], inputs[1], align_corners=True).sum().backward()
        return [x.grad.cpu().double() for x in inputs if x.grad is not None]

    for got, exact in zip(gradients("cuda", dtype), gradients("cpu", torch.float64), strict=True):
        largest = float(exact.abs().max())
        assert float((got - exact).abs().max()) <= largest * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_layer_norm_are_added_up_in_single_precision(dtype: torch.dtype) -> None:
    inputs = [torch.rand(shape).to(dtype) for shape in ((2048, 16), (16,), (16,))]
    incoming = torch.rand(2048, 16).to(dtype)

    def gradients(device: str, wide: torch.dtype) -> list[torch.Tensor]:
        x, weight, bias = leaves = [value.to(device, wide).requires_grad_() for value in inputs]
        F.layer_norm(x, (16,), weight, bias).backward(incoming.to(device, wide))
        return [leaf.grad.cpu().double() for leaf in leaves if leaf.grad is not None]

    for got, exact in zip(gradients("cuda", dtype), gradients("cpu", torch.float64), strict=True):
        largest = float(exact.abs().max())
        assert float((got - exact).abs().max()) <= 4 * largest * torch.finfo(dtype).eps


def test_running_statistics_in_half_precision_are_updated() -> None:
    x, mean, variance = torch.rand(64, 3).half(), torch.zeros(3).half(), torch.ones(3).half()
    on_gpu = mean.cuda(), variance.cuda()
    F.batch_norm(x.cuda(), *on_gpu, training=True)
    wide = mean.double(), variance.double()
    F.batch_norm(x.double(), *wide, training=True)
    for got, exact in zip(on_gpu, wide, strict=True):
        torch.testing.assert_close(got.cpu().double(), exact, rtol=2e-3, atol=1e-4)


def test_results_go_to_out_and_in_place() -> None:
    x, y = torch.rand(50).half(), torch.rand(50).half()
    out = torch.empty(0, dtype=torch.half, device="cuda")
    assert torch.sub(x.cuda(), y.cuda(), alpha=1.7, out=out) is out
    exact = (x.double() - 1.7 * y.double()).half()
    torch.testing.assert_close(out.cpu(), exact, rtol=1e-3, atol=1e-4)
    z = x.cuda()
    assert z.sub_(y.cuda(), alpha=1.7) is z
    assert torch.equal(z, out)


def test_wider_and_mixed_dtypes_are_not_rounded() -> None:
    x = torch.randn(4, 100).half()
    got = F.log_softmax(x.cuda(), 1, dtype=torch.float32)
    torch.testing.assert_close(got.cpu(), F.log_softmax(x.float(), 1))
    x, weight = torch.rand(8, 3).cuda().half(), torch.ones(3, device="cuda")
    out, mean, _ = torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
    assert (out.dtype, mean.dtype) == (torch.float16, torch.float32)
    assert (x - torch.rand(3, device="cuda")).dtype is torch.float32
    assert x.prod(dtype=torch.float32).dtype is torch.float32
    assert x.float().prod(dtype=torch.float16).dtype is torch.float16

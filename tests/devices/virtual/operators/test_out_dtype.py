"""`out_dtype` of matrix products: half-precision inputs and a float32 result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind

F32 = torch.float32
Product = Callable[..., torch.Tensor]


def mm(a: Any, b: Any, **named: Any) -> torch.Tensor:
    return torch.mm(a, b, **named)


def bmm(a: Any, b: Any, **named: Any) -> torch.Tensor:
    return torch.bmm(a.expand(3, *a.shape), b.expand(3, *b.shape), **named)


def addmm(a: Any, b: Any, **named: Any) -> torch.Tensor:
    return torch.addmm(_added(a, b, named), a, b, **named, beta=0.5, alpha=2.0)


def baddbmm(a: Any, b: Any, **named: Any) -> torch.Tensor:
    added = _added(a, b, named).expand(3, -1, -1)
    return torch.baddbmm(added, a.expand(3, *a.shape), b.expand(3, *b.shape), **named, beta=0.5, alpha=2.0)


def _added(a: torch.Tensor, b: torch.Tensor, named: dict[str, Any]) -> torch.Tensor:
    """Return a bias in the result's dtype, which CUDA accepts as well as the factors' dtype."""
    return torch.ones(len(a), b.shape[1], device=a.device, dtype=named.get("out_dtype", a.dtype))


PRODUCTS = [mm, bmm, addmm, baddbmm]


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_are_not_rounded_to_half_precision(product: Product, dtype: torch.dtype) -> None:
    a, b = torch.randn(20, 300).to(dtype), torch.randn(300, 11).to(dtype)
    wanted = product(a.double(), b.double())
    wide = product(a.cuda(), b.cuda(), out_dtype=F32)
    assert wide.dtype is F32
    assert wide.device == torch.device("cuda:0")
    assert (wide.cpu() - wanted).norm() / wanted.norm() < 1e-6
    assert (product(a.cuda(), b.cuda()).cpu() - wanted).norm() / wanted.norm() > 1e-5
    out = torch.empty_like(wide)
    assert product(a.cuda(), b.cuda(), out_dtype=F32, out=out) is out
    assert torch.equal(out.cpu(), wide.cpu())


@pytest.mark.usefixtures("two_gpus")
def test_the_added_tensor_may_have_the_factors_dtype() -> None:
    a = torch.ones(4, 4, dtype=torch.float16, device="cuda")
    assert torch.addmm(a, a, a, out_dtype=F32).tolist() == [[5.0] * 4] * 4
    with pytest.raises(RuntimeError, match="self dtype must match either out_dtype or mat1 dtype"):
        torch.addmm(a.double(), a, a, out_dtype=F32)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("product", PRODUCTS)
def test_other_dtypes_are_refused_in_cudas_words(product: Product) -> None:
    half = torch.ones(4, 4, dtype=torch.float16, device="cuda")
    words = "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"
    for factor, wanted in ((half, torch.bfloat16), (half.float(), torch.float16), (half.float(), torch.float64)):
        with pytest.raises(RuntimeError, match=words):
            product(factor, factor, out_dtype=wanted)
    with pytest.raises(RuntimeError, match="dtype of the provided out tensor"):
        product(half, half, out_dtype=F32, out=torch.empty(4, 4, dtype=torch.float16, device="cuda"))
    with pytest.raises(RuntimeError, match="input dtypes must be the same"):
        torch.mm(half, half.bfloat16(), out_dtype=F32)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("product", PRODUCTS)
def test_autograd_does_not_support_out_dtype(product: Product) -> None:
    """PyTorch's derivatives.yaml has none of these overloads for any device."""
    half = torch.ones(4, 4, dtype=torch.float16, device="cuda", requires_grad=True)
    out = product(half, half, out_dtype=F32)
    assert out.requires_grad
    with pytest.raises(RuntimeError, match=f"derivative for aten::{product.__name__} is not implemented"):
        out.sum().backward()
    assert half.grad is None


def test_out_dtype_is_a_tensor_core_product_with_larger_output() -> None:
    with virtual_gpu(1, "A100", recorder=Recorder([__file__])) as machine:
        half = torch.ones(512, 512, dtype=torch.float16, device="cuda")
        wide = half.float()
        torch.cuda.synchronize()
        for product in PRODUCTS:
            product(half, half), product(half, half, out_dtype=F32), product(wide, wide)
    kernels = [
        event for event in machine.recorder.complete() if event.kind is Kind.KERNEL and event.name.endswith("mm")
    ]
    assert len(kernels) == 12
    for narrow, mixed, single in zip(*[iter(kernels)] * 3, strict=True):
        assert narrow.name == mixed.name == single.name
        assert narrow.flops == mixed.flops == single.flops > 0
        assert narrow.size_bytes < mixed.size_bytes < single.size_bytes
        assert narrow.duration < mixed.duration < single.duration


@pytest.mark.parametrize("product", PRODUCTS)
def test_without_values_the_results_are_as_large(product: Product) -> None:
    with virtual_gpu(1, "A100", values=False):
        a = torch.empty(20, 30, device="cuda", dtype=torch.bfloat16)
        out = product(a, a.t(), out_dtype=F32)
        assert out.dtype is F32
        assert out.shape[-2:] == (20, 20)

"""Dropout is one kernel with a mask of bytes, as CUDA's is (aten/src/ATen/native/Dropout.cpp)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.virtual_gpus import traced

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
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("way", COMPOSED)
def test_other_kinds_of_dropout_are_composed(two_gpus: VirtualMachine, way: str) -> None:
    name = type(COMPOSED[way](_needing_gradients(64)).grad_fn).__name__
    assert "Dropout" not in name


def test_dropout_without_effect_returns_its_input(two_gpus: VirtualMachine) -> None:
    x = _needing_gradients(8)
    assert nn.functional.dropout(x, 0.0) is x
    assert nn.functional.dropout(x, training=False) is x
    empty = torch.ones(0, device="cuda")
    assert nn.functional.dropout(empty).shape == (0,)


def test_the_trace_has_one_kernel_for_dropout_and_one_for_its_backward_pass() -> None:
    def program() -> None:
        nn.functional.dropout(_needing_gradients(8)).backward(torch.ones(8, device="cuda"))
        with torch.inference_mode():
            nn.functional.dropout(torch.ones(8, device="cuda"))

    names = [event.name for event in traced(program) if "dropout" in event.name or "bernoulli" in event.name]
    assert names == ["aten::native_dropout", "aten::native_dropout_backward", "aten::native_dropout"]


def test_dropout_on_the_cpu_is_unchanged(two_gpus: VirtualMachine) -> None:
    on_host = nn.functional.dropout(torch.ones(8, requires_grad=True))
    assert type(on_host.grad_fn).__name__ == "MulBackward0"
    assert nn.functional.dropout(torch.ones(8, device="meta")).is_meta
    each = torch.vmap(nn.functional.dropout, randomness="different")(torch.ones(2, 3, device="cuda"))
    assert set(each.flatten().tolist()) <= {0.0, 2.0}


def test_leaving_the_virtual_gpu_removes_its_dropout_kernel() -> None:
    with virtual_gpu():
        assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta")

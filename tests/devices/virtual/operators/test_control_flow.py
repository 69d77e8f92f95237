"""`torch.cond` and `while_loop` run eagerly with gradients on the GPU and the CPU."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import _higher_order_ops

from gpututor.devices.virtual import VirtualMachine


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
@pytest.mark.parametrize("sign", [1, -1])
def test_cond_chooses_a_branch_with_gradients(two_gpus: VirtualMachine, device: str, sign: int) -> None:
    x = torch.full((2,), 3.0 * sign, device=device, requires_grad=True)
    weight = torch.arange(2.0, device=device)
    out = torch.cond(x.sum() > 0, lambda a: a * weight, lambda a: a - 1, (x,))
    assert str(out.device) == device
    assert out.tolist() == ([0.0, 3.0] if sign > 0 else [-4.0, -4.0])
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == ([0.0, 1.0] if sign > 0 else [1.0, 1.0])


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
def test_while_loop_repeats_while_its_condition_holds(two_gpus: VirtualMachine, device: str) -> None:
    start = (torch.tensor(0, device=device), torch.ones(2, device=device))
    turns, values = _higher_order_ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), start)
    assert (turns.item(), values.tolist(), str(values.device)) == (3, [8.0, 8.0], device)


def test_arguments_that_are_no_functions_are_refused(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="both branches to be callable"):
        torch.cond(True, cast("Any", 1), torch.neg, ())
    with pytest.raises(RuntimeError, match="to be callable"):
        _higher_order_ops.while_loop(torch.neg, None, ())

"""Error messages never contain `meta`, and warnings name the learner's line."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch as typed_torch

from gpututor.devices.virtual import VirtualMachine

torch: Any = typed_torch
"""Untyped: these calls are wrong on purpose."""
nn = torch.nn
F = torch.nn.functional
_META = re.compile(r"\bmeta\b|Meta[A-Z]", re.IGNORECASE)


def o(*sizes: int) -> Any:
    """Return ones on the device."""
    return torch.ones(*(sizes or (2, 3)), device="cuda")


def leaf(*sizes: int) -> Any:
    """Return a leaf on the device."""
    return torch.ones(*(sizes or (2, 3)), device="cuda", requires_grad=True)


CALLS: dict[str, Callable[[], Any]] = {
    "inner": lambda: torch.inner(o(3), torch.ones(3)),
    "mv": lambda: o() @ torch.ones(3),
    "half_mm": lambda: o() @ o(3, 2).half(),
    "long_mean": lambda: o().long().mean(),
    "bool_sub": lambda: o().bool() - o().bool(),
    "conv": lambda: nn.Conv2d(1, 1, 3).cuda()(o(1, 1, 2, 2)),
    "conv_half": lambda: nn.Conv2d(1, 1, 1).cuda()(o(1, 1, 2, 2).half()),
    "bn_mixed": lambda: nn.BatchNorm1d(3).cuda()(torch.ones(2, 3)),
    "ln_rev": lambda: nn.LayerNorm(3)(o()),
    "lstm_rev": lambda: nn.LSTM(3, 3)(o(2, 2, 3)),
    "lstm": lambda: nn.LSTM(3, 3).cuda()(torch.ones(2, 2, 3)),
    "lstm_hidden": lambda: nn.LSTM(3, 3).cuda()(o(2, 2, 3), (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))),
    "gru": lambda: nn.GRU(3, 3).cuda()(torch.ones(2, 2, 3)),
    "attn": lambda: F.scaled_dot_product_attention(o(1, 2, 4), torch.ones(1, 2, 4), o(1, 2, 4)),
    "mha": lambda: nn.MultiheadAttention(4, 2).cuda()(*[torch.ones(1, 2, 4)] * 3),
    "ce_dtype": lambda: F.cross_entropy(o(), o(2)),
    "bce": lambda: F.binary_cross_entropy(o() * 2, o()),
    "pool": lambda: F.max_pool2d(o(1, 1, 2, 2), 5),
    "interp": lambda: F.interpolate(o(1, 1, 2, 2), size=(0, 0)),
    "pad": lambda: F.pad(o(), (1, 1, 1, 1, 1, 1, 1)),
    "reshape": lambda: o().reshape(7),
    "expand": lambda: o().expand(5, 5),
    "squeeze": lambda: o().transpose(0, 9),
    "mask": lambda: o()[torch.ones(5, dtype=torch.bool, device="cuda")],
    "as_strided": lambda: o().as_strided((9, 9), (9, 1)),
    "inplace_bcast": lambda: o(3).add_(o()),
    "inplace_dtype": lambda: o().long().add_(1.5),
    "out_dtype": lambda: torch.add(o(), o(), out=o().long()),
    "out_grad": lambda: torch.add(o(), o(), out=leaf()),
    "gradshape": lambda: (leaf() * 2).backward(o(5)),
    "grad_shape": lambda: setattr(leaf(), "grad", o(5)),
    "grad_dtype": lambda: setattr(leaf(), "grad", o().half()),
    "grad_unused": lambda: torch.autograd.grad(leaf().sum(), leaf()),
    "grad_of_nongrad": lambda: torch.autograd.grad(leaf().sum(), o()),
    "names": lambda: (
        torch.ones(2, 3, names=("a", "b"), device="cuda") + torch.ones(2, 3, names=("c", "b"), device="cuda")
    ),
    "iter": lambda: iter(o().sum()).__next__(),
    "int": lambda: int(o()),
    "linalg": lambda: torch.linalg.inv(torch.zeros(2, 2, device="cuda")),
    "chol": lambda: torch.linalg.cholesky(-torch.eye(2, device="cuda")),
    "svd": lambda: torch.linalg.svd(o(3)),
    "fft": lambda: torch.fft.fft(o().long(), n=0),
    "einsum": lambda: torch.einsum("ij,jk", o(), o()),
    "scatter_dtype": lambda: o().scatter(0, torch.tensor([[0]], device="cuda"), o(1, 1).half()),
    "topk": lambda: o().topk(9),
    "sort": lambda: o().sort(7),
    "multinomial": lambda: torch.multinomial(-o(3), 1),
    "randint": lambda: torch.randint(5, 2, (1,), device="cuda"),
    "arange": lambda: torch.arange(5, 1, device="cuda"),
    "neg": lambda: -o().bool(),
    "dist": lambda: torch.cdist(o(), torch.ones(2, 3)),
    "unfold": lambda: o().unfold(0, 9, 1),
    "roll": lambda: o().roll((1, 2), 0),
    "foreach": lambda: torch._foreach_add([o()], [torch.ones(2, 3)]),
    "baddbmm": lambda: torch.baddbmm(o(1, 2, 2), torch.ones(1, 2, 3), o(1, 3, 2)),
    "triu": lambda: o(3).triu(),
    "bucket": lambda: torch.bucketize(o(), torch.ones(3)),
    "searchsorted": lambda: torch.searchsorted(torch.ones(3), o()),
    "histc": lambda: o().long().histc(),
    "kl": lambda: F.kl_div(o(), torch.ones(2, 3)),
    "grid": lambda: F.grid_sample(o(1, 1, 2, 2), torch.ones(1, 2, 2, 2)),
    "ctc": lambda: F.ctc_loss(o(2, 1, 3), torch.tensor([[1]]), (2,), (9,)),
    "ops_add": lambda: torch.ops.aten.add(o(), torch.ones(2, 3)),
    "ops_inner": lambda: torch.ops.aten.dot(o(3), torch.ones(3)),
    "ops_mm": lambda: torch.ops.aten.mm(o(), o()),
    "ops_empty": lambda: torch.ops.aten.cudnn_convolution(
        o(1, 1, 2, 2), o(1, 1, 1, 1), [0], [1], [1], 1, False, False, False
    ),
    "view0d": lambda: o().view(torch.complex128),
    "cross": lambda: torch.cross(o(), torch.ones(2, 3)),
    "tensor": lambda: torch.tensor([o(), o()]),
    "complex": lambda: o().to(torch.complex64) > 0,
}


def _said(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except (RuntimeError, ValueError, TypeError, IndexError, LookupError) as error:
        return str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_message_contains_meta(two_gpus: VirtualMachine, call: Callable[[], Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said = _said(call)
    texts = [said, *(str(warning.message) for warning in caught)]
    assert all(texts)
    assert not [text for text in texts if _META.search(text)]
    assert {warning.filename for warning in caught} <= {__file__}


def test_a_warning_names_the_line_that_called_torch(two_gpus: VirtualMachine) -> None:
    x = o()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno
        torch.add(x, x, out=o(1))
        F.kl_div(x, x)
        nn.functional.pad(x, (1, 1))
    assert [(warning.filename, warning.lineno - line) for warning in caught] == [(__file__, 1), (__file__, 2)]

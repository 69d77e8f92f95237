"""Operators with tensors on two devices: accepted and refused as by CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from gpututor.devices.virtual import VirtualMachine

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _assigned(target: torch.Tensor, place: Any, value: torch.Tensor) -> torch.Tensor:
    target[place] = value
    return target


# g is a matrix on the GPU, c a matrix on the CPU, s a CPU tensor without dimensions.
# fmt: off
_ALLOWED: dict[str, Call] = {
    "add": lambda g, c, s: g + s,
    "the other way round": lambda g, c, s: s - g,
    "in place": lambda g, c, s: g.mul_(s),
    "with alpha": lambda g, c, s: torch.add(g, s, alpha=2),
    "compare": lambda g, c, s: (g > s).float(),
    "power": lambda g, c, s: s ** g,
    "maximum": lambda g, c, s: torch.maximum(g, s),
    "clamp": lambda g, c, s: g.clamp(min=s, max=s + 1),
    "where": lambda g, c, s: torch.where(g > 0, g, s),
    "where of numbers": lambda g, c, s: torch.where(g > 0, 1.0, g),
    "where of scalars": lambda g, c, s: torch.where(g > 0, s, s + 1),
    "lerp": lambda g, c, s: torch.lerp(g, g + 1, s),
    "fill_": lambda g, c, s: g.fill_(s),
    "masked_fill": lambda g, c, s: g.masked_fill(g > 0, s),
    "index_fill": lambda g, c, s: g.index_fill(0, torch.zeros(1, dtype=torch.int64, device="cuda"), s),
    "index by a CPU tensor": lambda g, c, s: g[torch.tensor([1, 0])],
    "index by a CPU mask": lambda g, c, s: g[c > 0],
    "assign at a CPU mask": lambda g, c, s: g.index_put_((c > 0,), s),
    "assign a CPU scalar": lambda g, c, s: _assigned(g, (slice(None), 0), s),
    "assign a CPU tensor": lambda g, c, s: _assigned(g, slice(None), c),
    "copy_": lambda g, c, s: g.copy_(c),
    "scalar of the GPU": lambda g, c, s: g.sum() + s,
    "out": lambda g, c, s: torch.add(g, s, out=torch.empty_like(g)),
}
_REFUSED: dict[str, Call] = {
    "add": lambda g, c, s: g + c,
    "a GPU scalar and a CPU tensor": lambda g, c, s: c + g.sum(),
    "a GPU scalar in place": lambda g, c, s: c.add_(g.sum()),
    "where": lambda g, c, s: torch.where(g > 0, g, c),
    "where with a CPU condition": lambda g, c, s: torch.where(c > 0, g, g),
    "masked_fill with a CPU mask": lambda g, c, s: g.masked_fill(c > 0, 1.0),
    "masked_select": lambda g, c, s: g.masked_select(c > 0),
    "lerp": lambda g, c, s: torch.lerp(g, g, c),
    "addcmul": lambda g, c, s: torch.addcmul(g, g, c),
    "clamp": lambda g, c, s: g.clamp(min=c),
    "out on the CPU": lambda g, c, s: torch.add(g, g, out=c),
    "out on the GPU": lambda g, c, s: torch.add(c, c, out=g),
    "product with out on the CPU": lambda g, c, s: torch.mm(g, g, out=c),
    "product": lambda g, c, s: c @ g,
    "batched product": lambda g, c, s: torch.bmm(g[None], c[None]),
    "linear": lambda g, c, s: F.linear(g, c),
    "cat": lambda g, c, s: torch.cat([g, c]),
    "stack of scalars": lambda g, c, s: torch.stack([g.sum(), s]),
    "gather": lambda g, c, s: g.gather(0, c.long() * 0),
    "scatter": lambda g, c, s: g.scatter(0, c.long() * 0, g),
    "index_select": lambda g, c, s: g.index_select(0, torch.tensor([0])),
    "index_select by a scalar": lambda g, c, s: g.index_select(0, torch.tensor(0)),
    "embedding": lambda g, c, s: F.embedding(torch.tensor([0]), g),
    "embedding of a scalar": lambda g, c, s: F.embedding(torch.tensor(0), g),
    "take": lambda g, c, s: g.take(torch.tensor([0])),
    "cross entropy": lambda g, c, s: F.cross_entropy(g, torch.tensor([0, 1])),
    "mse": lambda g, c, s: F.mse_loss(g, c),
    "layer norm": lambda g, c, s: F.layer_norm(g, (2,), torch.ones(2)),
    "batch norm": lambda g, c, s: F.batch_norm(g, torch.zeros(2), torch.ones(2)),
    "assigned values": lambda g, c, s: _assigned(g, torch.tensor([0, 1]), c),
    "index by another GPU's tensor": lambda g, c, s: g[torch.tensor([0], device="cuda:1")],
    "another GPU's scalar": lambda g, c, s: g + s.to("cuda:1"),
    "another GPU": lambda g, c, s: g * g.to("cuda:1"),
}
# fmt: on


@pytest.fixture
def three(two_gpus: VirtualMachine) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    c = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    return c.cuda(), c.clone(), torch.tensor(2.0)


@pytest.mark.parametrize("name", _ALLOWED)
def test_mixed_devices_that_cuda_accepts_give_the_cpus_values(
    three: tuple[torch.Tensor, torch.Tensor, torch.Tensor], name: str
) -> None:
    g, c, s = three
    got = _ALLOWED[name](g, c, s)
    assert str(got.device) == "cuda:0"
    if "index_fill" not in name:
        torch.testing.assert_close(got.cpu(), _ALLOWED[name](c.clone(), c.clone(), s))


@pytest.mark.parametrize("name", _REFUSED)
def test_mixed_devices_that_cuda_refuses_raise_its_error(
    three: tuple[torch.Tensor, torch.Tensor, torch.Tensor], name: str
) -> None:
    with pytest.raises(RuntimeError, match="device") as caught:
        _REFUSED[name](*three)
    assert "cuda:" in str(caught.value)
    assert "meta" not in str(caught.value)

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
    "the other way round": lambda g, c, s: s - g,
    "with alpha": lambda g, c, s: torch.add(g, s, alpha=2),
    "compare": lambda g, c, s: (g > s).float(),
    "power": lambda g, c, s: s ** g,
    "maximum": lambda g, c, s: torch.maximum(g, s),
    "clamp": lambda g, c, s: g.clamp(min=s, max=s + 1),
    "where": lambda g, c, s: torch.where(g > 0, g, s),
    "where of numbers": lambda g, c, s: torch.where(g > 0, 1.0, g),
    "lerp": lambda g, c, s: torch.lerp(g, g + 1, s),
    "fill_": lambda g, c, s: g.fill_(s),
    "index_fill": lambda g, c, s: g.index_fill(0, torch.zeros(1, dtype=torch.int64, device="cuda"), s),
    "assign at a CPU mask": lambda g, c, s: g.index_put_((c > 0,), s),
    "assign a CPU scalar": lambda g, c, s: _assigned(g, (slice(None), 0), s),
    "scalar of the GPU": lambda g, c, s: g.sum() + s,
    "out": lambda g, c, s: torch.add(g, s, out=torch.empty_like(g)),
}
_REFUSED: dict[str, Call] = {
    "a GPU scalar and a CPU tensor": lambda g, c, s: c + g.sum(),
    "a GPU scalar in place": lambda g, c, s: c.add_(g.sum()),
    "where": lambda g, c, s: torch.where(g > 0, g, c),
    "masked_fill with a CPU mask": lambda g, c, s: g.masked_fill(c > 0, 1.0),
    "masked_select": lambda g, c, s: g.masked_select(c > 0),
    "lerp": lambda g, c, s: torch.lerp(g, g, c),
    "addcmul": lambda g, c, s: torch.addcmul(g, g, c),
    "clamp": lambda g, c, s: g.clamp(min=c),
    "out on the GPU": lambda g, c, s: torch.add(c, c, out=g),
    "index_select": lambda g, c, s: g.index_select(0, torch.tensor([0])),
    "index_select by a scalar": lambda g, c, s: g.index_select(0, torch.tensor(0)),
    "embedding of a scalar": lambda g, c, s: F.embedding(torch.tensor(0), g),
    "take": lambda g, c, s: g.take(torch.tensor([0])),
    "layer norm": lambda g, c, s: F.layer_norm(g, (2,), torch.ones(2)),
    "batch norm": lambda g, c, s: F.batch_norm(g, torch.zeros(2), torch.ones(2)),
    "assigned values": lambda g, c, s: _assigned(g, torch.tensor([0, 1]), c),
    "index by another GPU's tensor": lambda g, c, s: g[torch.tensor([0], device="cuda:1")],
    "another GPU's scalar": lambda g, c, s: g + s.to("cuda:1"),
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

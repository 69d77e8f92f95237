"""Operators with tensors on two devices: accepted and refused as by CUDA, with its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from gpututor.devices.virtual import VirtualMachine
from gpututor.devices.virtual.operator_facts import device_checks

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


SAME = "Expected all tensors to be on the same device, but "
TWO = SAME + "found at least two devices, cuda:0 and cpu!"


def _got(argument: str, where: str, others: str, wrapper: str) -> str:
    return (
        f"{SAME}got {argument} is on {where}, different from other tensors on {others} "
        f"(when checking argument in method wrapper_{wrapper})"
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g, c: g.add_(c), TWO),
        (lambda g, c: torch.cat([g, c]), _got("tensors", "cpu", "cuda:0", "CUDA_cat")),
        (lambda g, c: torch.stack([c, g]), _got("tensors", "cuda:0", "cpu", "CUDA_cat")),
        (lambda g, c: torch.allclose(g, c), TWO),
        (lambda g, c: torch.dist(g, c), TWO),
        (
            lambda g, c: torch.nn.functional.bilinear(g, c, torch.ones(1, 2, 2, device="cuda")),
            _got("mat2", "cpu", "cuda:0", "CUDA_bmm"),
        ),
        (lambda g, c: torch.linalg.lstsq(g, c), _got("b", "cpu", "cuda:0", "CUDA_out_linalg_lstsq_out")),
        (
            lambda g, c: torch.block_diag(g, c),
            "torch.block_diag: input tensors must all be on the same device. "
            "Input 0 is on device cuda:0 and input 1 is on device cpu",
        ),
        (lambda g, c: torch.mm(g, g, out=c), _got("self", "cuda:0", "cpu", "CUDA_mm_out_out")),
        (lambda g, c: torch.addmm(g, g, g, out=g.to("cuda:1")), _got("self", "cuda:0", "cuda:1", "CUDA_addmm_out_out")),
        (lambda g, c: g.addmm_(g, c), _got("mat2", "cpu", "cuda:0", "CUDA_addmm_")),
        (
            lambda g, c: torch.index_select(g, 0, g[0].long(), out=c),
            _got("self", "cuda:0", "cpu", "CUDA_out_index_select_out"),
        ),
        (lambda g, c: g.scatter(0, g.long() * 0, c), _got("src", "cpu", "cuda:0", "CUDA_scatter_src")),
        (lambda g, c: torch.add(g, g, out=c), TWO),
        (lambda g, c: torch.ops.aten.gelu.out(g, out=c), TWO),
        (lambda g, c: g.to_sparse() @ c, _got("mat2", "cpu", "cuda:0", "SparseCUDA__mm")),
        (lambda g, c: torch.sparse.mm(g.to_sparse(), c), _got("mat1", "cuda:0", "cpu", "SparseCUDA__addmm")),
        (lambda g, c: g.to_sparse() + c.to_sparse(), "add: expected 'other' to be a CUDA tensor, but got a CPU tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_mixed_devices_raise_cudas_error(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor, torch.Tensor], object], words: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("call", "device"),
    [
        (lambda g, c, on_other: c[g], "cpu"),
        (lambda g, c, on_other: c[g > 0], "cpu"),
        (lambda g, c, on_other: c.reshape(1, 3)[:, g], "cpu"),
        (lambda g, c, on_other: c.reshape(1, 3)[torch.zeros(3, dtype=torch.int64), g], "cpu"),
        (lambda g, c, on_other: g[on_other], "cuda:0"),
        (lambda g, c, on_other: c.cuda(1)[g], "cuda:1"),
    ],
)
def test_indices_on_another_gpu_than_the_indexed_tensor_raise_cudas_error(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object], device: str
) -> None:
    indices = torch.arange(3, device="cuda")
    with pytest.raises(RuntimeError) as caught:
        call(indices, torch.rand(3), indices.to("cuda:1"))
    expected = f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
    assert str(caught.value) == expected


def test_an_assignment_moves_its_indices_and_a_single_value_as_cuda_does(two_gpus: VirtualMachine) -> None:
    indices = torch.tensor([0, 2], device="cuda")
    for target in (torch.zeros(3), torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda:1")):
        before = target.device
        target[indices] = 1.0
        target[torch.tensor([1])] = torch.tensor(2.0, device="cuda")
        target.index_put_((indices[:1],), torch.ones(1, device=before), accumulate=True)
        assert target.device == before
        assert target.tolist() == [2.0, 2.0, 1.0]
    masked = torch.zeros(3)
    masked[torch.tensor([True, False, True], device="cuda")] = 5.0
    assert masked.tolist() == [5.0, 0.0, 5.0]


def test_values_on_another_device_than_the_target_are_refused(two_gpus: VirtualMachine) -> None:
    target, indices, values = torch.zeros(3, device="cuda"), torch.tensor([0, 2], device="cuda"), torch.ones(2)
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        target[indices] = values
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        values[torch.tensor([0, 1])] = target[:2]
    with pytest.raises(RuntimeError, match=r"^expected device cuda:0 but got device cpu for value tensor$"):
        target.index_put_((indices,), values, accumulate=True)


def test_error_messages_name_wrappers_of_a_cuda_build() -> None:
    """Covers structured and other kernels, in place and with out=."""
    known = device_checks()
    assert {"wrapper_CUDA_mm", "wrapper_CUDA__index_select", "wrapper_CUDA_addmm_", "wrapper_SparseCUDA__mm"} <= known
    assert not {"wrapper_CUDA__dist", "wrapper_CUDA__allclose", "wrapper_CUDA_add_Tensor"} & known
    assert len(known) > 700

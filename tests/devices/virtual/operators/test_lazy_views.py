"""Conjugate and negative views of device tensors share memory with their base."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu

VALUES = [1 + 2j, 3 - 1j]


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    with virtual_gpu():
        yield


def _tensor() -> torch.Tensor:
    return torch.tensor(VALUES, device="cuda")


def test_a_conjugate_shares_memory_with_its_base_both_ways() -> None:
    base = _tensor()
    used = torch.cuda.memory_allocated()
    view = base.conj()
    assert torch.cuda.memory_allocated() == used
    assert view.data_ptr() == base.data_ptr()
    view[0] = 1
    assert base.tolist() == [1, 3 - 1j]
    view.mul_(1j)
    assert view.tolist() == [1j, -1 + 3j]
    assert base.tolist() == [-1j, -1 - 3j]
    base.add_(1j)
    assert view.tolist() == [0, -1 + 2j]
    view.copy_(_tensor())
    assert base.tolist() == [1 - 2j, 3 + 1j]


def test_is_conj_and_is_neg_match_cuda() -> None:
    base = _tensor()
    view = base.conj()
    assert (base.is_conj(), view.is_conj(), view.conj().is_conj()) == (False, True, False)
    assert (view.imag.is_neg(), base.imag.is_neg(), view.real.is_neg()) == (True, False, False)
    assert view.imag.tolist() == [-2.0, 1.0]
    assert view.real.tolist() == [1.0, 3.0]
    assert not view.resolve_conj().is_conj()
    assert not view.imag.resolve_neg().is_neg()
    assert view[0:1].is_conj()
    assert view.unbind()[1].is_conj()
    assert torch.is_conj(view.detach())
    assert not (view + 1).is_conj()
    assert not view.clone().is_conj()


def test_the_conjugate_transpose_multiplies_and_writes() -> None:
    matrix = torch.randn(3, 2, dtype=torch.complex64)
    other = torch.randn(3, 4, dtype=torch.complex64)
    moved = matrix.cuda()
    torch.testing.assert_close((moved.mH @ other.cuda()).cpu(), matrix.mH @ other)
    torch.testing.assert_close(torch.linalg.inv(moved.mH @ moved).cpu(), torch.linalg.inv(matrix.mH @ matrix))
    moved.mH[0, 1] = torch.tensor(1j)
    assert moved[1, 0].item() == -1j


def test_only_a_resolved_conjugate_is_viewed_as_real_numbers() -> None:
    view = _tensor().conj()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated tensors"):
        torch.view_as_real(view)
    assert torch.view_as_real(view.resolve_conj()).tolist() == [[1.0, -2.0], [3.0, 1.0]]
    base = _tensor()
    base.conj().imag.fill_(5.0)
    assert base.tolist() == [1 - 5j, 3 - 5j]


def test_conjugates_are_printed_copied_and_moved_with_their_values() -> None:
    view = _tensor().conj()
    wanted = [1 - 2j, 3 + 1j]
    assert repr(view) == "tensor([1.-2.j, 3.+1.j], device='cuda:0')"
    assert repr(view.imag) == "tensor([-2.,  1.], device='cuda:0')"
    assert view.cpu().tolist() == wanted
    assert view.numpy(force=True).tolist() == wanted
    assert view[0].item() == 1 - 2j
    assert torch.ops.aten.item(view[0]) == 1 - 2j
    assert view.to(torch.complex128).tolist() == wanted
    for twin in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert twin.device.type == "cuda"
        assert twin.is_conj()
        assert twin.tolist() == wanted
    twin = copy.deepcopy(view.imag)
    assert twin.is_neg()
    assert twin.tolist() == [-2.0, 1.0]


@pytest.mark.parametrize("where", ["cuda", "cpu"])
def test_a_file_keeps_the_bits_and_the_shared_memory(where: str) -> None:
    base = _tensor()
    file = io.BytesIO()
    torch.save({"base": base, "view": base.conj(), "negative": _tensor().conj().imag}, file)
    file.seek(0)
    read = torch.load(file, map_location=where)
    assert read["view"].device.type == where
    assert (read["view"].is_conj(), read["negative"].is_neg()) == (True, True)
    assert read["view"].tolist() == [1 - 2j, 3 + 1j]
    assert read["negative"].tolist() == [-2.0, 1.0]
    read["view"][0] = 1j
    assert read["base"][0].item() == -1j


def test_out_foreach_and_composite_overloads_take_conjugates() -> None:
    base = _tensor()
    torch.add(base.clone(), 1, out=base.conj())
    assert base.tolist() == [2 - 2j, 4 + 1j]
    assert torch._foreach_add([base.conj()], 1j)[0].tolist() == [2 + 3j, 4 + 0j]
    with pytest.raises(RuntimeError, match="doesn't currently support mutable TensorLists with conjugate inputs"):
        torch._foreach_add_([base.conj()], 1j)
    view = _tensor().conj()
    ones = torch.ones(2, dtype=torch.complex64, device="cuda")
    assert torch.ops.aten.vdot.default(view, ones).item() == sum(VALUES)
    assert torch.ops.aten.matmul.default(view, ones).item() == sum(VALUES).conjugate()
    assert torch.ops.aten.square.default(view).tolist() == [(1 - 2j) ** 2, (3 + 1j) ** 2]
    with torch.inference_mode():
        assert (view * 1).tolist() == [1 - 2j, 3 + 1j]


def test_gradients_through_views_are_those_of_the_cpu() -> None:
    results = []
    for device in ("cuda", "cpu"):
        leaf = torch.tensor(VALUES, device=device, requires_grad=True)
        wide = leaf * 2
        view = wide.conj()
        view.mul_(1 + 1j)
        view.imag.add_(wide.real)
        (torch.fft.fft(wide).abs().sum() + (view * wide).real.sum()).backward()
        assert leaf.grad is not None
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(results[0], results[1])


def test_vmap_and_grad_see_conjugates() -> None:
    rows = torch.randn(3, 2, dtype=torch.complex64)
    got = torch.func.vmap(lambda row: torch.vdot(row, row.conj()))(rows.cuda())
    torch.testing.assert_close(got.cpu(), torch.stack([torch.vdot(row, row.conj()) for row in rows]))
    gradient = torch.func.grad(lambda value: (value.conj() * value).real.sum())
    torch.testing.assert_close(gradient(rows.cuda()).cpu(), gradient(rows))

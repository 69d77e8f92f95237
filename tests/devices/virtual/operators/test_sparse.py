"""Sparse COO tensors on the virtual GPU, with CUDA's placement and the CPU's values."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, host_tensor, is_virtual
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")

INDICES = [[0, 1, 1], [2, 0, 2]]
VALUES = [3.0, 4.0, 5.0]
COMPRESSED = (torch.sparse_csr, torch.sparse_csc)
_sparse_coo_tensor: Any = torch.sparse_coo_tensor
"""Untyped, because the stub does not accept lists."""
Call = Callable[[torch.Tensor, torch.Tensor], Any]


def _coo(device: str = "cuda", **options: Any) -> torch.Tensor:
    made: torch.Tensor = _sparse_coo_tensor(INDICES, VALUES, (2, 3), device=device, **options)
    return made


def _dense(device: str) -> torch.Tensor:
    return torch.arange(6.0, device=device).reshape(3, 2)


def test_constructors_make_coo_tensors_on_the_device(two_gpus: VirtualMachine) -> None:
    made = (
        _coo(),
        _sparse_coo_tensor((2, 3), device="cuda"),
        torch.sparse_coo_tensor(torch.tensor(INDICES, device="cuda"), torch.tensor(VALUES, device="cuda")),
        torch.eye(3, device="cuda:1").to_sparse(),
    )
    for tensor in made:
        assert is_virtual(tensor)
        assert tensor.layout is torch.sparse_coo
        assert (tensor.is_sparse, tensor.is_sparse_csr) == (True, False)
    assert [str(tensor.device) for tensor in made] == ["cuda:0"] * 3 + ["cuda:1"]


@pytest.mark.parametrize("layout", COMPRESSED, ids=str)
def test_other_sparse_layouts_are_refused_by_name(two_gpus: VirtualMachine, layout: torch.layout) -> None:
    on_host = _coo("cpu").to_sparse(layout=layout)
    calls: tuple[Callable[[], object], ...] = (
        lambda: _coo().to_sparse(layout=layout),
        lambda: on_host.cuda(),
        lambda: torch.eye(2, device="cuda").to_sparse(layout=layout),
    )
    for call in calls:
        with pytest.raises(NotImplementedError, match=rf"tensors of layout {layout}"):
            call()
    with pytest.raises(NotImplementedError, match=r"tensors of layout torch.sparse_csr"):
        torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], VALUES, (2, 3), device="cuda")
    assert torch.cuda.memory_allocated() == 0


def test_indices_and_values_are_on_the_device_and_printed_as_on_cuda(two_gpus: VirtualMachine) -> None:
    coo = _coo().coalesce()
    assert coo.is_coalesced()
    for part in (coo.indices(), coo.values()):
        assert str(part.device) == "cuda:0"
    assert coo.indices().tolist() == INDICES
    assert coo._nnz() == 3
    assert repr(_coo()) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       device='cuda:0', size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )


# fmt: off
_SAME_AS_CPU: dict[str, Call] = {
    "to_dense": lambda s, d: s.to_dense(),
    "to_sparse": lambda s, d: s.to_sparse(),
    "matmul": lambda s, d: s @ d,
    "sparse.mm": torch.sparse.mm,
    "product of two sparse": lambda s, d: torch.sparse.mm(s, d.to_sparse()),
    "mv": lambda s, d: s @ d[:, 0],
    "addmm": lambda s, d: torch.sparse.addmm(torch.ones(2, 2, device=d.device), s, d),
    "add": lambda s, d: s + s,
    "times two": lambda s, d: s * 2,
    "sum": lambda s, d: s.sum(),
    "transpose": lambda s, d: s.t(),
    "double": lambda s, d: s.double(),
    "detach and clone": lambda s, d: s.detach().clone(),
    "sparse.sum": lambda s, d: torch.sparse.sum(s, 0),
    "softmax": lambda s, d: torch.sparse.softmax(s, 1),
    "mask": lambda s, d: d.t().sparse_mask(s.coalesce()),
    "dense plus sparse": lambda s, d: d.t() + s,
    "times dense": lambda s, d: s * d.t(),
    "row": lambda s, d: s[1],
    "cat": lambda s, d: torch.cat([s, s]),
    "stack": lambda s, d: torch.stack([s, s]),
    "in place": lambda s, d: s.clone().add_(s).mul_(3),
    "zero_": lambda s, d: s.clone().zero_(),
    "zeros_like": lambda s, d: torch.zeros_like(s),
    "unequal sizes in place": lambda s, d: s.clone().sparse_resize_((4, 5), 2, 0),
}
# fmt: on


@pytest.mark.parametrize("name", _SAME_AS_CPU)
def test_an_operator_gives_the_cpus_values_and_layout_on_the_device(two_gpus: VirtualMachine, name: str) -> None:
    call = _SAME_AS_CPU[name]
    expected = call(_coo("cpu"), _dense("cpu"))
    got = call(_coo(), _dense("cuda"))
    assert is_virtual(got)
    assert (got.layout, got.shape, got.dtype) == (expected.layout, expected.shape, expected.dtype)
    torch.testing.assert_close(host_tensor(got), expected)


def test_a_sparse_tensor_moves_between_devices(two_gpus: VirtualMachine) -> None:
    here = _coo("cpu")
    there = here.cuda(1)
    assert (str(there.device), there.layout) == ("cuda:1", torch.sparse_coo)
    assert str(there.to("cuda:0").device) == "cuda:0"
    back = there.cpu()
    assert (back.device.type, is_virtual(back)) == ("cpu", False)
    torch.testing.assert_close(back, here)


def test_memory_is_that_of_the_indices_and_values_also_if_they_grow(two_gpus: VirtualMachine) -> None:
    indices = torch.randint(0, 1000, (2, 500), device="cuda")
    values = torch.rand(500, device="cuda")
    before = torch.cuda.memory_allocated()
    shared = torch.sparse_coo_tensor(indices, values, (1000, 1000))
    assert torch.cuda.memory_allocated() == before
    copy_of_it = shared.clone()
    assert torch.cuda.memory_allocated() - before == 2 * 500 * 8 + 192 + 500 * 4 + 48
    part = copy_of_it._values()
    del copy_of_it
    assert torch.cuda.memory_allocated() - before == 500 * 4 + 48
    del part, shared, indices, values
    assert torch.cuda.memory_allocated() == 0
    total = _sparse_coo_tensor((1000, 1000), device="cuda")
    other = torch.sparse_coo_tensor(torch.arange(512).expand(2, -1), torch.ones(512), (1000, 1000), device="cuda")
    before = torch.cuda.memory_allocated()
    total.add_(other)
    assert torch.cuda.memory_allocated() - before == 512 * (8 + 8 + 4)


def test_gradients_flow_through_products_and_conversions(two_gpus: VirtualMachine) -> None:
    gradients = []
    for device in ("cpu", "cuda"):
        sparse = _coo(device).requires_grad_()
        dense = _dense(device).requires_grad_()
        torch.sparse.mm(sparse, dense).pow(2).sum().backward()
        assert str(gradient(sparse).device).startswith(device)
        gradients.append((gradient(sparse).cpu().to_dense(), gradient(dense).cpu()))
    torch.testing.assert_close(gradients[0], gradients[1])
    values = torch.tensor(VALUES, device="cuda", requires_grad=True)
    (torch.sparse_coo_tensor(torch.tensor(INDICES, device="cuda"), values, (2, 3)).to_dense() ** 2).sum().backward()
    assert gradient(values).tolist() == [6.0, 8.0, 10.0]
    dense = _dense("cuda").requires_grad_()
    (dense.to_sparse().to_dense() * 2).sum().backward()
    assert gradient(dense).tolist() == [[0.0, 2.0], [2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SparseAdam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
    ],
)
def test_an_embedding_with_sparse_gradients_trains_as_on_the_cpu(
    two_gpus: VirtualMachine, make: Callable[[Any], torch.optim.Optimizer]
) -> None:
    weights = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        embedding = nn.Embedding(5, 2, sparse=True).to(device)
        optimiser = make(embedding.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            embedding(torch.tensor([1, 1, 3], device=device)).pow(2).sum().backward()
            gradient = embedding.weight.grad
            assert gradient is not None
            assert gradient.layout is torch.sparse_coo
            optimiser.step()
        weights.append(embedding.weight.detach().cpu())
    torch.testing.assert_close(weights[0], weights[1])


def test_a_sparse_tensor_is_copied_with_its_device_and_not_pickled(two_gpus: VirtualMachine) -> None:
    tensor = _coo().coalesce()
    twin = copy.deepcopy(tensor)
    assert (str(twin.device), twin.layout) == ("cuda:0", tensor.layout)
    torch.testing.assert_close(host_tensor(twin), host_tensor(tensor))
    twin.values().zero_()
    assert tensor.values().tolist() == VALUES
    with pytest.raises(NotImplementedError, match="pickling a sparse tensor"):
        torch.save(tensor, io.BytesIO())


def test_indices_and_values_are_copied_separately(recorder: Recorder) -> None:
    sparse = _coo("cpu")
    sparse.cuda()
    crossings = [(event.source, event.size_bytes) for event in recorder.trace if event.kind is Kind.TRANSFER]
    assert crossings == [("cpu", 48), ("cpu", 12)]

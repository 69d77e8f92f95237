"""Tensors on a virtual GPU: factories, moves, views, modes, and the names and messages of a CUDA build."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, host_tensor, is_virtual, storage_key, virtual_gpu
from gpututor.devices.virtual.cuda_errors import with_cuda_device_names
from tests.support.virtual_gpus import printed

GPU = torch.device("cuda:0")


@pytest.mark.parametrize(
    "make",
    [
        lambda **where: torch.zeros(2, 3, **where),
        lambda **where: torch.ones((2, 3), **where),
        lambda **where: torch.full((2,), 7, **where),
        lambda **where: torch.empty(2, **where).fill_(1),
        lambda **where: torch.arange(2, 9, 3, **where),
        lambda **where: torch.linspace(0, 1, 5, **where),
        lambda **where: torch.eye(3, **where),
        lambda **where: torch.tensor([[1, 2], [3, 4]], **where),
        lambda **where: torch.tensor(3.5, dtype=torch.float64, **where),
        lambda **where: torch.as_tensor(np.arange(3.0), **where),
        lambda **where: torch.tril_indices(3, 3, **where),
        lambda **where: torch.hann_window(4, **where),
        lambda **where: torch.zeros_like(torch.ones(2), **where),
        lambda **where: torch.ones(2).new_full((2,), 3.0, **where),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 0), 1])
def test_a_factory_makes_the_same_values_on_the_device(
    two_gpus: VirtualMachine, make: Callable[..., torch.Tensor], device: object
) -> None:
    made, expected = make(device=device), make()
    index = 1 if device in ("cuda:1", 1) else 0
    assert made.device == torch.device("cuda", index)
    assert (made.is_cuda, made.is_cpu, made.is_meta, made.get_device()) == (True, False, False, index)
    assert isinstance(made, torch.Tensor)
    assert made.dtype is expected.dtype
    assert torch.equal(made.cpu(), expected)


def test_cpp_errors_name_cuda(two_gpus: VirtualMachine) -> None:
    assert with_cuda_device_names("tensor on meta:1, not 'meta', metadata, Metadata") == (
        "tensor on cuda:1, not 'cuda', metadata, Metadata"
    )
    x = torch.ones(2, 3, device="cuda")
    for call in (lambda: x.view(5), lambda: x @ x, lambda: x[7], lambda: torch.FloatTensor(2, device="cuda"), x.item):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            call()
        assert "meta" not in str(caught.value)


def test_moves_keep_values_and_change_dtype_and_device(two_gpus: VirtualMachine) -> None:
    host = torch.arange(6.0).reshape(2, 3)
    x = host.to("cuda", torch.float16, non_blocking=True)
    assert (x.device, x.dtype) == (GPU, torch.float16)
    assert torch.equal(x.to("cuda:1").cpu().float(), host)
    assert torch.equal(host.t().cuda().cpu(), host.t())
    assert host.t().cuda().stride() == (1, 3)
    assert x.double().device == GPU
    assert x.type() == "torch.cuda.HalfTensor"
    target = torch.zeros(2, 3)
    assert torch.equal(target.copy_(x), host)
    assert torch.equal(torch.zeros(2, 3, device="cuda").copy_(host).cpu(), host)


def test_the_learners_own_meta_device_still_works(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="meta")
    assert x.device == torch.device("meta")
    assert x.is_meta
    assert not is_virtual(x)
    assert torch.ones(2, device="cuda").to("meta").is_meta


def test_views_share_memory_and_in_place_changes_show(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(2, 3, device="cuda")
    row, turned = x[0], x.t()
    row += 1
    turned[0, 1] = 5.0
    assert x.tolist() == [[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]
    assert storage_key(row) == storage_key(x) == storage_key(turned.reshape(3, 2)) != storage_key(x.clone())
    assert x.data_ptr() == row.data_ptr() != x[1].data_ptr()
    assert x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
    x.unsqueeze_(0)
    assert x.shape == (1, 2, 3)
    assert x.squeeze_().shape == (2, 3)
    assert x.transpose_(0, 1).shape == (3, 2)
    assert x.resize_(2, 2).shape == (2, 2)
    out = torch.empty(0, device="cuda")
    torch.add(row, row, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_inference_mode_stays_on_the_device(two_gpus: VirtualMachine) -> None:
    x = torch.arange(4.0, device="cuda").reshape(2, 2)
    with torch.inference_mode():
        assert (x @ x.t()).reshape(4).device == GPU
        assert torch.nn.functional.linear(x, x).to("cuda").device == GPU


def test_the_host_tensor_is_plain_and_a_tensor_of_a_tensor_stays(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    host = host_tensor(x)
    assert type(host) is torch.Tensor
    assert (host.device.type, host.requires_grad) == ("cpu", False)
    assert (is_virtual(x), is_virtual(host)) == (True, False)
    x = torch.ones(2, device="cuda")
    assert torch.Tensor(x).device == x.as_subclass(torch.Tensor).device == torch.device("cuda:0")


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda gradient: gradient.cpu(), "(was torch.cuda.FloatTensor got torch.FloatTensor)"),
        (lambda gradient: gradient.double(), "(was torch.cuda.FloatTensor got torch.cuda.DoubleTensor)"),
    ],
)
def test_a_hooks_type_error_does_not_mention_meta(
    two_gpus: VirtualMachine, hook: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    assert words in str(caught.value)
    assert "meta" not in str(caught.value).lower()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("move", [lambda x: x.to("cuda"), lambda x: x.cuda()])
def test_nested_tensors_are_refused_by_name(two_gpus: VirtualMachine, move: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(NotImplementedError, match=r"does not support nested tensors \(torch.nested\) on a device"):
        move(torch.nested.nested_tensor([torch.ones(2)]))


def test_device_tensors_and_others_are_instances_of_torch_tensor(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    assert str(type(x)) == "<class 'torch.Tensor'>"
    with pytest.raises(TypeError, match=r"mm\(\) received an invalid combination of arguments - got \(Tensor\)"):
        torch.mm(x)  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'shapes'"):
        x.shapes  # type: ignore[attr-defined]  # noqa: B018
    x, host = torch.ones(1, device="cuda"), torch.ones(1)
    for other in (x, host, nn.Parameter(host), nn.Parameter(x)):
        assert isinstance(other, type(x))
        assert issubclass(type(other), type(x))
    assert not isinstance(1, type(x))
    assert not issubclass(int, type(x))


def test_numpy_arrays_meet_device_tensors_as_on_cuda(two_gpus: VirtualMachine) -> None:
    x, array = torch.ones(2, device="cuda"), np.ones(2)
    # NumPy defers to torch, which raises; the same happens for a CPU tensor.
    with pytest.raises(TypeError, match=r"^unsupported operand type\(s\) for \*: 'numpy.ndarray' and 'Tensor'$"):
        array * x
    for call in (lambda: x * array, lambda: np.add(array, x), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"^can't convert cuda:0 device type tensor to numpy"):
            call()


@pytest.mark.parametrize("layer", [nn.LSTM(3, 2), nn.GRU(3, 2)])
def test_recurrent_layers_do_not_ask_to_rebuild_pytorch(two_gpus: VirtualMachine, layer: nn.RNN) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.cuda()(torch.ones(4, 3, device="cuda"))


def test_an_integer_device_is_the_accelerators() -> None:
    with virtual_gpu(1):
        assert torch.device(0) == torch.device("cuda:0")
        assert torch.device(5) == torch.device("cuda", 5)
        assert isinstance(torch.device(0), torch.device)
        assert torch.ones(2, device=torch.device(0)).device == torch.device("cuda:0")
    with virtual_gpu(0):
        assert torch.device(0) == torch.device("cuda:0")
        with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
            torch.ones(2, device=0)


# In a child process: an operator that reads address 0 ends it with a segmentation fault.
_PROGRAM = """
import torch
from gpututor.devices.virtual import virtual_gpu

zeros = torch._efficientzerotensor((8, 8))
ones = torch.ones(8, 8)
with virtual_gpu(1):
    on_gpu = ones.cuda()
    results = [
        torch.special.ndtr(zeros) - 0.5,
        torch.nn.functional.scaled_dot_product_attention(zeros, ones, zeros),
        zeros * 0.7,
        torch.stack([zeros, zeros]),
        torch._foreach_mul([zeros], 2.0)[0],
        zeros.cuda(),
        torch.zeros(8, 8, device="cuda").copy_(zeros),
        on_gpu * zeros[0, 0],
        torch.where(on_gpu > 0, zeros[0, 0], on_gpu),
        torch.special.ndtr(zeros.view(64).sin()) - 0.5,
    ]
    print(sum(float(tensor.abs().sum()) for tensor in results))
"""


def test_zero_tensors_are_read_as_zeros() -> None:
    assert printed("-c", _PROGRAM) == "0.0\n"


def test_conjugate_and_negative_views_of_the_cpu_keep_their_values() -> None:
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    negative = conjugate.imag
    assert conjugate.is_conj()
    assert negative.is_neg()
    with virtual_gpu():
        assert conjugate.cuda().tolist() == [1 - 2j, 3 + 1j]
        assert negative.cuda().tolist() == [-2.0, 1.0]
        assert (torch.ones(2, device="cuda") * negative[0]).tolist() == [-2.0, -2.0]
        assert (torch.ones(2, device="cuda") * conjugate[0]).tolist() == [1 - 2j] * 2
        assert torch.zeros(2, device="cuda").copy_(negative).tolist() == [-2.0, 1.0]
        assert conjugate.cuda().conj().imag.tolist() == [2.0, -1.0]

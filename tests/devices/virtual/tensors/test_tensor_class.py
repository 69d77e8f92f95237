"""Names and messages of device tensors are those of a CUDA build."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


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


def test_a_tensor_of_a_tensor_is_the_same_tensor(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda")
    assert torch.Tensor(x).device == x.as_subclass(torch.Tensor).device == torch.device("cuda:0")


def test_the_class_of_a_device_tensor_is_called_torch_tensor(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    assert str(type(x)) == "<class 'torch.Tensor'>"
    with pytest.raises(TypeError, match=r"mm\(\) received an invalid combination of arguments - got \(Tensor\)"):
        torch.mm(x)  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'shapes'"):
        x.shapes  # type: ignore[attr-defined]  # noqa: B018
    for same in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert (type(same), same.device, same.tolist()) == (type(x), x.device, x.tolist())


def test_all_tensors_are_instances_of_the_type_of_a_device_tensor(two_gpus: VirtualMachine) -> None:
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

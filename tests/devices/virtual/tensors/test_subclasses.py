"""The user's subclasses of `torch.Tensor` and `torch.nn.Parameter` on a device."""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.virtual_gpus import gradient


class Logged(torch.Tensor):
    """Tensor that remembers torch's functions that were called with it."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


class Plain(torch.Tensor):
    """Tensor of another name."""


class Named(torch.Tensor):
    """Tensor with a label that results inherit."""

    label: str

    @staticmethod
    def __new__(cls, data: torch.Tensor, label: str) -> Any:
        made: Any = data.as_subclass(cls)
        made.label = label
        return made

    def __init__(self, data: torch.Tensor, label: str) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        if isinstance(result, Named):
            result.label = next(value.label for value in args if isinstance(value, Named))
        return result


class Scaled(nn.Parameter):
    """Parameter of another name."""


class Wrapped(torch.Tensor):
    """Tensor that runs operators on another one."""

    part: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor) -> None:
        self.part = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        plain = [value.part if isinstance(value, Wrapped) else value for value in args]
        # A factory in a class's own dispatch makes a tensor on the device too.
        zero = torch.zeros((), device="cuda")
        result = func(*plain, **(kwargs or {}))
        return cls(result + zero) if isinstance(result, torch.Tensor) else result


def test_results_have_the_class_and_the_device(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda:1").as_subclass(Logged)
    Logged.calls.clear()
    y = torch.exp(x) * 2
    assert "exp" in Logged.calls
    for tensor in (x, y, x[1:], torch.stack([x, x]), x + torch.ones(3, device="cuda:1"), torch.split(x, 2)[0]):
        assert isinstance(tensor, Logged)
        assert tensor.device == torch.device("cuda:1")
        assert tensor.is_cuda
    assert repr(x) == "Logged([1., 1., 1.], device='cuda:1')"
    assert type(x).__name__ == "Logged"
    assert not isinstance(torch.ones(3, device="cuda"), Logged)
    assert (x + 1).tolist() == [2.0] * 3


def test_a_host_tensor_keeps_its_class_there_and_back(two_gpus: VirtualMachine) -> None:
    x = torch.arange(3.0).as_subclass(Plain)
    for there in (x.cuda(), x.to("cuda:1"), x.to(torch.ones(1, device="cuda"))):
        assert isinstance(there, Plain)
        assert there.is_cuda
        back = there.cpu()
        assert type(back) is Plain
        assert torch.equal(back, x)


def test_attributes_follow_through_functions_and_copies_and_pickling_is_refused(two_gpus: VirtualMachine) -> None:
    x: Any = Named(torch.ones(2, device="cuda"), "a")
    assert (x.label, (x * 2).label, (x * 2).is_cuda) == ("a", "a", True)
    x = Named(torch.ones(2, device="cuda"), "a")
    other = copy.deepcopy(x)
    other.zero_()
    assert (other.label, isinstance(other, Named), x.sum().item()) == ("a", True, 2.0)
    with pytest.raises(NotImplementedError, match="pickling a tensor of the class Named"):
        pickle.dumps(x)


def test_memory_is_shared_and_devices_are_checked_as_for_plain_tensors(two_gpus: VirtualMachine) -> None:
    base = torch.zeros(3, device="cuda")
    before = torch.cuda.memory_allocated()
    x = base.as_subclass(Plain)
    assert x.add_(1) is x
    x[0] = 5
    torch.add(x, 1, out=x)
    assert base.tolist() == [6.0, 2.0, 2.0]
    assert torch.cuda.memory_allocated() == before
    x.resize_(5)
    assert x.shape == (5,)
    x = torch.ones(3, device="cuda").as_subclass(Plain)
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        x + torch.ones(3)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


def test_gradients_flow_through_the_class(two_gpus: VirtualMachine) -> None:
    leaf = torch.ones(3, device="cuda", requires_grad=True)
    (leaf.as_subclass(Logged) ** 2).sum().backward()
    assert gradient(leaf).tolist() == [2.0] * 3
    own = torch.ones(3, device="cuda").as_subclass(Logged).requires_grad_()
    (own * 3).sum().backward()
    assert gradient(own).tolist() == [3.0] * 3


def test_own_parameters_move_with_their_module_and_train(two_gpus: VirtualMachine) -> None:
    module = nn.Linear(2, 1, bias=False)
    module.weight = Scaled(module.weight.detach())
    weight = module.weight
    module.cuda()
    assert module.weight is weight
    assert isinstance(weight, Scaled)
    assert weight.is_cuda
    before = weight.detach().clone()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    assert torch.allclose(weight, before - 0.1)
    module.to("cuda:1")
    assert isinstance(module.weight, Scaled)
    assert module.weight.get_device() == 1
    module.cpu()
    assert type(module.weight) is Scaled
    assert isinstance(Scaled(torch.ones(1, device="cuda")), Scaled)


def test_a_class_with_its_own_dispatch_runs_on_its_parts(two_gpus: VirtualMachine) -> None:
    x = Wrapped(torch.ones(3, device="cuda"))
    y = torch.add(x, 1)
    assert isinstance(y, Wrapped)
    assert y.part.tolist() == [2.0] * 3
    with pytest.raises(NotImplementedError, match="Wrapped"):
        torch.ones(3, device="cuda").as_subclass(Wrapped)


def test_shapes_without_values_have_classes_too() -> None:
    with virtual_gpu(values=False):
        x = torch.rand(3, 2, device="cuda").as_subclass(Plain)
        assert isinstance(x @ x.T, Plain)


def test_the_class_is_an_ordinary_one_again_afterwards() -> None:
    with virtual_gpu(1):
        assert isinstance(torch.ones(1, device="cuda").as_subclass(Plain), Plain)
    x = torch.ones(2).as_subclass(Plain)
    assert type(x + 1) is Plain
    assert type(Scaled(torch.ones(1))) is Scaled
    assert type(nn.Parameter(torch.ones(1))) is nn.Parameter

"""`torch.cuda.FloatTensor` and other legacy types and calls, default dtypes and devices, and storages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

CUDA: Any = torch.cuda
"""Untyped: torch's stubs do not know all of it."""


@pytest.mark.parametrize(
    ("name", "dtype"), [("Float", torch.float32), ("Half", torch.float16), ("Long", torch.int64), ("Bool", torch.bool)]
)
def test_type_converts_by_name_and_by_class(two_gpus: VirtualMachine, name: str, dtype: torch.dtype) -> None:
    full = f"torch.cuda.{name}Tensor"
    x = torch.ones(2)
    for wanted in (full, getattr(torch.cuda, f"{name}Tensor")):
        there = x.type(wanted)
        assert (there.type(), there.dtype, there.device) == (full, dtype, torch.device("cuda:0"))
        assert isinstance(there, getattr(torch.cuda, f"{name}Tensor"))
        assert there.tolist() == [1, 1]
    back = there.type(f"torch.{name}Tensor")
    assert (back.device.type, back.type()) == ("cpu", f"torch.{name}Tensor")
    assert there.type(torch.float64).type() == "torch.cuda.DoubleTensor"
    assert there.cuda(1).type(full).device.index == 1


def test_legacy_constructors_make_tensors_on_the_device(two_gpus: VirtualMachine) -> None:
    made: Any = CUDA.FloatTensor(2, 3)
    assert (made.shape, made.dtype, made.device.index) == ((2, 3), torch.float32, 0)
    assert CUDA.LongTensor([1, 2]).tolist() == [1, 2]
    assert CUDA.FloatTensor(torch.Size([4])).shape == (4,)
    assert CUDA.FloatTensor().shape == (0,)
    assert CUDA.HalfTensor([[1.0]], device="cuda:1").device.index == 1
    with CUDA.device(1):
        assert CUDA.ByteTensor(1).device.index == 1


@pytest.mark.parametrize("given", ["torch.cuda.HalfTensor", "class"])
def test_a_default_type_of_the_device_is_a_default_device_and_dtype(two_gpus: VirtualMachine, given: str) -> None:
    try:
        torch.set_default_tensor_type(CUDA.HalfTensor if given == "class" else given)
        made = torch.ones(2)
        assert (made.device, made.dtype) == (torch.device("cuda:0"), torch.float16)
        assert torch.get_default_device() == torch.device("cuda:0")
        torch.set_default_tensor_type("torch.FloatTensor")
        assert (torch.ones(2).device.type, torch.ones(2).dtype) == ("cpu", torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    with pytest.raises(TypeError, match=r"only floating-point types are supported as the default type"):
        torch.set_default_tensor_type("torch.cuda.LongTensor")


def test_conversions_move_to_the_named_device(two_gpus: VirtualMachine) -> None:
    array = np.arange(3.0, dtype=np.float32)
    assert torch.asarray(array, device="cuda:1").device.index == 1
    assert torch.from_numpy(array).cuda(non_blocking=True).device.index == 0
    there = torch.ones(2, device="cuda")
    assert torch.as_tensor(there) is there
    assert torch.asarray(there).device.index == 0
    assert there.cuda().data_ptr() == there.data_ptr() != 0
    assert not hasattr(there, "__cuda_array_interface__")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_of_both_kinds_have_a_device_and_a_size(two_gpus: VirtualMachine) -> None:
    x = torch.arange(4, dtype=torch.uint8, device="cuda:1")
    storage: Any = x.untyped_storage()
    assert (storage.device, storage.nbytes(), len(storage), storage.get_device()) == (x.device, 4, 4, 1)
    assert storage.data_ptr() == x.data_ptr() == x.view(2, 2).untyped_storage().data_ptr()
    assert storage == x[1:].untyped_storage()
    assert storage.is_cuda
    assert storage.tolist() == list(storage) == [0, 1, 2, 3]
    assert (storage[2], storage.element_size()) == (2, 1)
    host = storage.cpu()
    assert isinstance(host, torch.UntypedStorage)
    host[0] = 9
    assert x.tolist() == [0, 1, 2, 3]
    assert repr(storage) == " 0\n 1\n 2\n 3\n[torch.storage.UntypedStorage(device=cuda:1) of size 4]"
    storage.resize_(8)
    assert (storage.nbytes(), storage.tolist()[:4]) == (8, [0, 1, 2, 3])
    assert torch.cuda.memory_allocated(1) == 512
    storage.resize_(0)
    assert torch.cuda.memory_allocated(1) == 0
    with pytest.raises(NotImplementedError, match=r"UntypedStorage._byteswap"):
        storage.byteswap(torch.int32)
    typed: Any = torch.tensor([1.0, 2.0], device="cuda").storage()
    assert (len(typed), typed.size(), typed.nbytes(), typed.dtype) == (2, 2, 8, torch.float32)
    assert typed.type() == "torch.cuda.FloatStorage"
    assert (typed.tolist(), typed[1], typed.cpu().tolist()) == ([1.0, 2.0], 2.0, [1.0, 2.0])
    assert repr(typed) == " 1.0\n 2.0\n[torch.storage.TypedStorage(dtype=torch.float32, device=cuda:0) of size 2]"
    assert typed.untyped().nbytes() == 8


def test_each_gpu_has_its_own_default_generator(two_gpus: VirtualMachine) -> None:
    generators = CUDA.default_generators
    assert [generator.device.index for generator in generators] == [0, 1]
    generators[1].manual_seed(5)
    first = torch.rand(2, device="cuda:1").tolist()
    generators[1].manual_seed(5)
    assert torch.rand(2, device="cuda:1", generator=generators[1]).tolist() == first


def test_warnings_of_old_constructors_follow_warn_always(two_gpus: VirtualMachine) -> None:
    counts = []
    for always in (False, True):
        torch.set_warn_always(always)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                CUDA.FloatTensor([0])
                CUDA.DoubleTensor([0])
                for kind in (torch.FloatTensor, CUDA.FloatTensor, torch.FloatTensor):
                    torch.set_default_tensor_type(kind)
        finally:
            torch.set_warn_always(False)
        texts = [str(item.message) for item in caught]
        words = ("no longer recommended", "is deprecated as of")
        counts.append([sum(word in text for text in texts) for word in words])
    assert counts == [[1, 1], [2, 3]]


pytestmark = pytest.mark.usefixtures("two_gpus")


def _said(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_apply_map_and_unknown_types_raise_cudas_errors(two_gpus: VirtualMachine) -> None:
    here: Any = torch.ones(2, 3, device="cuda")
    host: Any = torch.ones(2, 3)
    assert _said(TypeError, lambda: here.apply_(lambda x: x)) == "apply_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: here.map_(here, max)) == "map_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: here.map2_(here, here, max)) == "map2_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: host.map_(here, max)) == "map_ is only implemented on CPU tensors"
    needs_gradient = here.clone().requires_grad_()
    assert _said(RuntimeError, lambda: needs_gradient.apply_(abs)).startswith("Can't call apply_() on Variable")
    assert host.apply_(lambda x: x + 1).map_(host, lambda x, y: x + y).tolist() == [[4.0] * 3] * 2
    for x in (torch.ones(1), torch.ones(1, device="cuda")):
        with pytest.raises(ValueError, match=r"^invalid type: 'torch.cuda.NoTensor'$"):
            x.type("torch.cuda.NoTensor")
        with pytest.raises(NotImplementedError, match=r"torch.cuda.sparse"):
            x.type("torch.cuda.sparse.FloatTensor")


def test_new_keeps_dtype_and_gpu() -> None:
    there: Any = torch.ones(2, 3, device="cuda:1", dtype=torch.float64)
    before = torch.cuda.memory_allocated(1)
    sized = there.new(1000)
    assert torch.cuda.memory_allocated(1) - before == 8192
    for made, shape in ((sized, (1000,)), (there.new(), (0,)), (there.new(2, 3), (2, 3))):
        assert (made.shape, made.dtype, made.device) == (shape, torch.float64, torch.device("cuda:1"))
    assert there.new(torch.Size([2])).zero_().tolist() == [0.0, 0.0]
    for values in ([1, 2], (1, 2), torch.ones(2, dtype=torch.int64).mul_(2).numpy(), [there[0, 0], 2]):
        made = there.new(values)
        assert made.device.index == 1
        assert made.dtype is torch.float64
        assert made[1].item() == 2
    assert there.new(3, device="cuda:0").device.index == 0
    with pytest.raises(torch.OutOfMemoryError):
        there.new(1 << 34)
    assert there.new(there.untyped_storage()).tolist() == [1.0] * 6
    assert CUDA.FloatTensor(3).new(2).device == torch.device("cuda:0")


def test_new_and_legacy_constructors_reject_wrong_arguments() -> None:
    here, host = torch.ones(2, device="cuda"), torch.ones(2)
    words = "legacy constructor expects device type: {} but device type: {} was passed"
    assert _said(RuntimeError, lambda: here.new(3, device="cpu")) == words.format("cuda", "cpu")
    assert _said(RuntimeError, lambda: host.new(3, device="cuda")) == words.format("cpu", "cuda")
    for call in (
        lambda: here.new(host),
        lambda: here.new(here, device="cuda"),
        lambda: here.new(size=(2, 3)),
        lambda: CUDA.FloatTensor(here),
    ):
        assert "an old constructor with these arguments" in _said(NotImplementedError, call)
    assert _said(TypeError, lambda: here.new(1.5)) == "new(): data must be a sequence (got float)"


def test_cuda_rejects_other_devices_and_negative_indices() -> None:
    host: Any = torch.ones(2)
    linear: Any = torch.nn.Linear(1, 1)
    for wrong in ("cpu", "meta", "meta:0"):
        for movable in (host, host.cuda(), linear):
            assert _said(RuntimeError, partial(movable.cuda, wrong)) == "Invalid device, must be cuda device"
    calls: tuple[Callable[[], object], ...] = (
        lambda: host.to(-1),
        lambda: host.cuda(-1),
        lambda: torch.ones(2, device=-1),
        lambda: linear.cuda(-1),
        lambda: linear.to(-1),
    )
    for call in calls:
        assert _said(RuntimeError, call) == "Device index must not be negative"


def test_a_meta_device_with_an_index_is_the_meta_device() -> None:
    here = torch.ones(3, device="cuda")
    linear = torch.nn.Linear(1, 1).cuda()
    made = [
        torch.zeros(3, device="meta:0"),
        torch.zeros(3, device=torch.device("meta", 1)),
        here.to("meta:0"),
        here.new_zeros(3, device="meta:1"),
        torch.empty_like(here, device="meta:0"),
        linear.to("meta:0").weight,
    ]
    with torch.device("meta:0"):
        made += [torch.zeros(2), torch.tensor([1.0])]
    assert {(tensor.device, tensor.is_cuda) for tensor in made} == {(torch.device("meta"), False)}

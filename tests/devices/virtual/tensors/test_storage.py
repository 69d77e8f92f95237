"""Storages of device tensors, and legacy CPU types."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu

CUDA: Any = torch.cuda
REAL_FLOAT_TENSOR: Any = torch.FloatTensor
SET = (
    'Attempted to set the storage of a tensor on device "{}" to a storage on different device "cuda:0".  '
    "This is no longer allowed; the devices must match."
)


def test_a_device_storage_is_an_untyped_storage(two_gpus: object) -> None:
    here, host = torch.ones(2, device="cuda"), torch.ones(2)
    storage: Any = here.untyped_storage()
    assert isinstance(storage, torch.UntypedStorage)
    assert torch.is_storage(storage)
    assert torch.is_storage(host.untyped_storage())
    assert not torch.is_storage(here)
    assert repr(type(storage)) == "<class 'torch.storage.UntypedStorage'>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which torch gives once in a process
        assert isinstance(here.storage(), torch.TypedStorage)
        here_too: Any = here.double()
        assert here_too.storage_type() is CUDA.DoubleStorage


def test_setting_a_storage_of_another_device_is_refused_in_cudas_words(two_gpus: object) -> None:
    storage: Any = torch.ones(2, device="cuda").untyped_storage()
    calls: dict[str, Callable[[], object]] = {
        "cpu": lambda: torch.ones(2).set_(storage),
        "cuda:1": lambda: torch.ones(2, device="cuda:1").set_(storage),
    }
    for device, call in calls.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == SET.format(device)
    with pytest.raises(RuntimeError) as caught:
        torch.FloatTensor(storage)
    assert str(caught.value) == SET.format("cpu")
    empty: Any = torch.empty(0)
    assert empty.set_(torch.ones(3)).tolist() == [1.0] * 3


def test_saving_a_bare_storage_is_refused_by_name(two_gpus: object) -> None:
    storage = torch.ones(2, device="cuda").untyped_storage()
    for save in (lambda: torch.save(storage, io.BytesIO()), lambda: pickle.dumps(storage)):
        with pytest.raises(NotImplementedError, match="UntypedStorage"):
            save()


def test_legacy_cpu_types_work_as_without_the_virtual_gpu(two_gpus: object) -> None:
    with pytest.raises(TypeError, match=r"device=cpu, .* \(got TensorOptions\(dtype=float, device=cuda:0, "):
        torch.FloatTensor(torch.ones(2, device="cuda"))
    made: Any = torch.FloatTensor([1, 2])
    assert made.tolist() == [1.0, 2.0]
    assert isinstance(made, torch.FloatTensor)
    assert not isinstance(made, torch.LongTensor)
    assert REAL_FLOAT_TENSOR in (torch.LongTensor, torch.FloatTensor)
    any_type: Any = torch.LongTensor
    assert made.type(any_type).dtype is torch.int64
    assert made.cuda().type(REAL_FLOAT_TENSOR).device.type == "cpu"
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert torch.FloatTensor.dtype is torch.float32
    assert pickle.loads(pickle.dumps(torch.FloatTensor)) is torch.FloatTensor


def test_a_tensor_that_outlives_its_machine_prints_and_says_so_when_it_is_used() -> None:
    with virtual_gpu():
        x: Any = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    assert (x.shape, x.device) == ((2,), torch.device("cuda:0"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use in (x.tolist, x.untyped_storage, x.storage, x.storage_type, x.data_ptr, x.cpu, x.sum):
            with pytest.raises(RuntimeError, match="on a virtual GPU that is switched off"):
                use()

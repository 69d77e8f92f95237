"""DLPack between virtual tensors; other libraries get what CUDA's tensors give them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

dlpack: Any = torch.utils.dlpack
from_dlpack: Any = torch.from_dlpack  # type: ignore[attr-defined]


class _Foreign:
    """Array of another library around a tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize("wrap", [lambda x: x, _Foreign, lambda x: dlpack.to_dlpack(x), lambda x: x.__dlpack__()])
def test_both_tensors_share_memory(two_gpus: VirtualMachine, wrap: Any) -> None:
    x = torch.arange(12.0, device="cuda").view(3, 4)
    before = torch.cuda.memory_allocated()
    y = from_dlpack(wrap(x[1:, ::2].T))
    assert (y.device, y.dtype, y.stride(), y.storage_offset()) == (x.device, x.dtype, (2, 4), 4)
    assert y.tolist() == [[4.0, 8.0], [6.0, 10.0]]
    y.zero_()
    assert x.sum().item() == 38.0
    assert y.untyped_storage() == x.untyped_storage()
    assert torch.cuda.memory_allocated() == before


def test_a_capsule_is_used_once_and_keeps_the_memory_until_then(two_gpus: VirtualMachine) -> None:
    capsule = dlpack.to_dlpack(torch.ones(4, device="cuda"))
    gc.collect()
    assert torch.cuda.memory_allocated() == 512
    assert from_dlpack(capsule).tolist() == [1.0] * 4
    del capsule
    gc.collect()
    assert torch.cuda.memory_allocated() == 0
    unused = torch.ones(4, device="cuda").__dlpack__(max_version=(1, 0))
    assert torch.cuda.memory_allocated() == 512
    del unused
    gc.collect()
    assert torch.cuda.memory_allocated() == 0
    capsule = dlpack.to_dlpack(torch.ones(4, device="cuda"))
    from_dlpack(capsule)
    with pytest.raises(RuntimeError):
        from_dlpack(capsule)


def test_numpy_refuses_a_device_tensor_and_takes_the_hosts(two_gpus: VirtualMachine) -> None:
    kind, index = torch.ones(1, device="cuda:1").__dlpack_device__()
    assert (int(kind), index) == (2, 1)
    x = torch.ones(4, device="cuda")
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device in DLTensor"):
        np.from_dlpack(x)
    assert np.from_dlpack(x.cpu()).tolist() == [1.0] * 4
    array = np.arange(3.0)
    x = from_dlpack(array)
    x[0] = 5.0
    assert array[0] == 5.0
    assert np.from_dlpack(torch.ones(2)).tolist() == [1.0, 1.0]


def test_other_devices_need_a_copy(two_gpus: VirtualMachine) -> None:
    x = torch.arange(3.0, device="cuda")
    assert dlpack.from_dlpack(x, device="cpu").tolist() == [0.0, 1.0, 2.0]
    there = dlpack.from_dlpack(torch.ones(2), device="cuda")
    assert (str(there.device), there.tolist()) == ("cuda:0", [1.0, 1.0])
    copy = dlpack.from_dlpack(x, copy=True)
    copy.zero_()
    assert x.sum().item() == 3.0
    with pytest.raises(ValueError, match="without copying"):
        dlpack.from_dlpack(x, device="cpu", copy=False)


def test_cudas_rules_for_exports_hold(two_gpus: VirtualMachine) -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device="cuda", requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="different CUDA device index"):
        from_dlpack(torch.ones(2, device="cuda:1"))
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.ones(2, device="cuda")
        assert from_dlpack(x).tolist() == [1.0, 1.0]


def test_without_values_there_is_nothing_to_share() -> None:
    with virtual_gpu(values=False), pytest.raises(RuntimeError, match="__dlpack__"):
        from_dlpack(torch.ones(2, device="cuda"))

"""`tensor.new`, `torch.cuda.FloatTensor`, `apply_` and `map_`, and unusual device arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("two_gpus")

CUDA: Any = torch.cuda


def _said(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_apply_and_map_raise_cudas_error_on_a_gpu() -> None:
    here: Any = torch.ones(2, 3, device="cuda")
    host: Any = torch.ones(2, 3)
    assert _said(TypeError, lambda: here.apply_(lambda x: x)) == "apply_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: here.map_(here, max)) == "map_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: here.map2_(here, here, max)) == "map2_ is only implemented on CPU tensors"
    assert _said(TypeError, lambda: host.map_(here, max)) == "map_ is only implemented on CPU tensors"
    needs_gradient = here.clone().requires_grad_()
    assert _said(RuntimeError, lambda: needs_gradient.apply_(abs)).startswith("Can't call apply_() on Variable")
    assert host.apply_(lambda x: x + 1).map_(host, lambda x, y: x + y).tolist() == [[4.0] * 3] * 2


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


def test_a_list_of_scalars_keeps_their_dtype() -> None:
    half = torch.tensor([1.5, 2.5], device="cuda", dtype=torch.float16)
    made = torch.tensor([half[0], half[1]], device="cuda")
    assert (made.dtype, made.tolist()) == (torch.float16, [1.5, 2.5])

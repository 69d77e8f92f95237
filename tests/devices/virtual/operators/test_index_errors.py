"""Indices out of range raise a device-side assertion instead of the CPU's IndexError."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

WORDS = (
    "CUDA error: device-side assert triggered\n"
    "Search for `cudaErrorAssert' in "
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, "
    "so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
Call = Callable[[torch.Tensor, torch.Tensor], object]

# fmt: off
_CALLS: dict[str, Call] = {
    "indexing": lambda x, far: x[far],
    "indexing by a CPU index": lambda x, far: x[far.cpu()],
    "assignment": lambda x, far: x.__setitem__(far, 1.0),
    "accumulation": lambda x, far: x.index_put_((far,), x[:2].clone(), accumulate=True),
    "embedding": lambda x, far: F.embedding(far, x),
    "embedding_bag": lambda x, far: F.embedding_bag(far, x, torch.zeros(1, dtype=torch.int64, device="cuda")),
    "gather": lambda x, far: x.gather(0, far[:, None]),
    "scatter_": lambda x, far: x.scatter_(0, far[:, None], 1.0),
    "scatter_add": lambda x, far: x.scatter_add(0, far[:, None], x[:2].clone()),
    "index_select": lambda x, far: x.index_select(0, far),
    "index_add_": lambda x, far: x.index_add_(0, far, x[:2].clone()),
    "index_copy_": lambda x, far: x.index_copy_(0, far, x[:2].clone()),
    "index_fill_": lambda x, far: x.index_fill_(0, far, 0.0),
    "take": lambda x, far: x.take(far * 10),
    "put_": lambda x, far: x.put_(far * 10, x[0, :2].clone()),
    "cross_entropy": lambda x, far: F.cross_entropy(x[:2], far),
    "nll_loss": lambda x, far: F.nll_loss(x[:2], far),
    "binary_cross_entropy": lambda x, far: F.binary_cross_entropy(x + 2, x),
}
# fmt: on


@pytest.mark.parametrize("name", _CALLS)
def test_an_index_out_of_range_is_a_device_side_assertion(two_gpus: VirtualMachine, name: str) -> None:
    x = torch.ones(3, 3, device="cuda")
    with pytest.raises(torch.AcceleratorError) as caught:
        _CALLS[name](x, torch.tensor([0, 7], device="cuda"))
    assert str(caught.value) == WORDS
    assert caught.value.__cause__ is not None


def test_a_failed_assertion_makes_every_later_call_of_cuda_raise() -> None:
    with virtual_gpu(2) as machine:
        x, host = torch.ones(3, device="cuda"), torch.ones(3)
        with pytest.raises(torch.AcceleratorError):
            x[torch.tensor([7], device="cuda")]
        calls: list[Callable[[], object]] = [
            lambda: x + 1,
            lambda: torch.ones(1, device="cuda:1"),
            lambda: host.cuda(),
            lambda: x.cpu(),
            lambda: str(x),
            torch.cuda.synchronize,
        ]
        for call in calls:
            with pytest.raises(torch.AcceleratorError) as caught:
                call()
            assert str(caught.value) == WORDS
        assert (host + 1).tolist() == [2.0, 2.0, 2.0]
        assert x.shape == (3,)
        machine.recover()
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x: x.sum(5), IndexError, "Dimension out of range"),
        (lambda x: x.narrow(0, 2, 5), RuntimeError, r"start \(2\) \+ length \(5\) exceeds dimension size"),
        (lambda x: x.gather(3, x.long()), IndexError, "Dimension out of range"),
    ],
)
def test_invalid_arguments_visible_to_the_host_raise_immediately(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        call(torch.ones(3, 3, device="cuda"))
    assert not isinstance(caught.value, torch.AcceleratorError)


def test_cpu_index_errors_are_unchanged(two_gpus: VirtualMachine) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        torch.ones(3)[torch.tensor([7])]
    with pytest.raises(IndexError, match="out of range in self"):
        F.embedding(torch.tensor([7]), torch.ones(3, 3))


def test_half_precision_ffts_need_powers_of_two(two_gpus: VirtualMachine) -> None:
    assert torch.fft.rfft(torch.ones(8, device="cuda", dtype=torch.float16)).dtype is torch.complex32
    with pytest.raises(RuntimeError) as caught:
        torch.fft.rfft(torch.ones(5, device="cuda", dtype=torch.float16))
    assert str(caught.value) == (
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
        "but got a signal size of[5]"
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_conversions_to_integers_saturate_and_nan_is_zero(dtype: torch.dtype) -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1e30, 2.9, -2.9]
    limits = torch.iinfo(dtype)
    with virtual_gpu():
        converted = torch.tensor(values, device="cuda").to(dtype).tolist()
    assert converted == [0, limits.max, limits.min, limits.max, 2, -2]


def test_dividing_integers_by_zero_is_no_error_and_other_quotients_are_right() -> None:
    with virtual_gpu():
        x, y = torch.tensor([7, 7, -7], device="cuda"), torch.tensor([2, 0, 2], device="cuda")
        assert (x // y).tolist()[::2] == [3, -4]
        assert (x % y).tolist()[::2] == [1, 1]
        assert (x // 0).shape == x.shape
        with pytest.raises(NotImplementedError, match="floor_divide"):
            x.floor_divide_(y)


def test_an_index_into_an_empty_dimension_is_an_error_of_the_host() -> None:
    with virtual_gpu():
        empty = torch.empty(10, 0, device="cuda")
        with pytest.raises(IndexError, match="dimension with size 0"):
            empty[:, [1, 2]]

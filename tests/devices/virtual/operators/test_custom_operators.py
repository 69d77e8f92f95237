"""Custom operators written in Python: the body runs on the device and is recorded line by line."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import Library, custom_op

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient

Body = Callable[..., Any]


@pytest.fixture
def library() -> Iterator[Library]:
    library = Library("test_custom", "FRAGMENT")
    yield library
    library._destroy()


def _norms(matrices: list[Tensor]) -> Tensor:
    return torch.tensor([(matrix @ matrix).norm().item() for matrix in matrices], device=matrices[0].device)


def _work(recorder: Recorder) -> Counter[tuple[Kind, str]]:
    return Counter((event.kind, event.name) for event in recorder.complete() if event.device != "cpu")


def test_a_body_is_recorded_as_it_would_be_without_the_operator(recorder: Recorder) -> None:
    matrices = [torch.ones(3, 3, device="cuda") for _ in range(4)]
    before = len(recorder.complete())
    plain = _norms(matrices)
    between = len(recorder.complete())
    hidden = custom_op("test_custom::norms", _norms, mutates_args=())(matrices)
    events = list(recorder.complete())

    wanted, result = (
        [(item.kind, item.name, item.line) for item in part] for part in (events[before:between], events[between:])
    )
    assert result == wanted
    assert sum(event.kind is Kind.SYNCHRONISE for event in events[between:]) >= 4
    assert torch.equal(plain, hidden)


def test_an_operator_registered_before_the_gpu_starts_is_seen_too() -> None:
    places = []

    def body(x: Tensor) -> Tensor:
        places.append((x.device, x.is_cuda, torch.ones(1, device="cuda").device))
        return x @ x

    operator = custom_op("test_custom::before", body, mutates_args=())
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        x = torch.eye(2, device="cuda")
        assert operator(x).device.type == "cuda"
    assert places == [(torch.device("cuda:0"), True, torch.device("cuda:0"))]
    assert _work(machine.recorder)[(Kind.KERNEL, "aten::mm")] == 1


@pytest.mark.parametrize("key", ["CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
@pytest.mark.parametrize("inference", [False, True])
def test_a_body_for_any_key_sees_the_device(
    key: str, inference: bool, library: Library, two_gpus: VirtualMachine
) -> None:
    places = []

    def body(x: Tensor) -> Tensor:
        places.append(x.device)
        return x.sin()

    library.define("any_key(Tensor x) -> Tensor")
    library.impl("any_key", body, key)
    with torch.inference_mode(inference):
        result = torch.ops.test_custom.any_key(torch.ones(2, device="cuda:1"))
    assert places == [torch.device("cuda:1")] == [result.device]


def test_the_kernel_of_the_device_is_chosen(two_gpus: VirtualMachine) -> None:
    operator = custom_op(
        "test_custom::chosen", lambda x: x + 1, mutates_args=(), device_types="cpu", schema="(Tensor x) -> Tensor"
    )
    on_gpu = torch.zeros(2, device="cuda")
    assert operator(torch.zeros(2)).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="'test_custom::chosen' with arguments from the 'CUDA' backend"):
        operator(on_gpu)
    operator.register_kernel("cuda")(lambda x: x + 2)
    assert operator(on_gpu).tolist() == [2, 2]
    assert operator(torch.zeros(2)).tolist() == [1, 1]


def test_an_operator_without_tensor_arguments_uses_its_device_argument(two_gpus: VirtualMachine) -> None:
    def body(count: int, device: torch.device) -> Tensor:
        return torch.arange(count, device=device)

    operator = custom_op("test_custom::made", body, mutates_args=())
    assert [str(operator(2, device=torch.device(name)).device) for name in ("cuda:1", "cuda", "cpu")] == [
        "cuda:1",
        "cuda:0",
        "cpu",
    ]


def test_in_place_writes_to_arguments_persist(two_gpus: VirtualMachine) -> None:
    def body(x: Tensor, factor: float) -> None:
        x.mul_(factor)

    x = torch.ones(2, device="cuda")
    custom_op("test_custom::scaled", body, mutates_args=("x",))(x, 3.0)
    assert x.tolist() == [3, 3]
    assert x._version > 0


def test_a_body_has_the_gradient_that_was_registered_and_no_other(two_gpus: VirtualMachine) -> None:
    places = []

    def body(x: Tensor) -> Tensor:
        return x * x

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        places.extend([gradient.device, x.device])
        return 10 * gradient + torch.zeros_like(x, device="cuda")

    operator = custom_op("test_custom::square", body, mutates_args=())
    x = torch.full((2,), 3.0, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd"):
        operator(x).sum().backward()
    operator.register_autograd(backward, setup_context=setup)
    operator.register_fake(torch.empty_like)
    operator(x).sum().backward()
    assert gradient(x).tolist() == [10, 10]
    assert set(places) == {torch.device("cuda:0")}


def test_operators_within_operators_batches_and_autocast(two_gpus: VirtualMachine) -> None:
    def inner(x: Tensor) -> Tensor:
        return x + 1

    inside = custom_op("test_custom::inside", inner, mutates_args=())

    def outer(x: Tensor) -> Tensor:
        result: Tensor = inside(x) * 2
        return result

    outside = custom_op("test_custom::outside", outer, mutates_args=())
    x = torch.ones(3, 2, device="cuda")
    assert outside(x).tolist() == [[4, 4]] * 3
    outside.register_vmap(lambda info, dims, x: (outside(x), dims[0]))
    assert torch.vmap(outside)(x).device == x.device
    outside.register_autocast("cuda", torch.float16)
    with torch.autocast("cuda"):
        assert outside(x).dtype is torch.float16


def test_work_of_a_body_on_the_cpu_is_priced(recorder: Recorder) -> None:
    operator = custom_op("test_custom::host", lambda x: x @ x @ x, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator(torch.ones(4, 4))
    assert sum(event.name == "aten::mm" and event.device == "cpu" for event in recorder.complete()) == 2


_REFUSED: dict[str, Callable[[], Any]] = {
    "impl": lambda: torch.library.impl("aten::mm", "cpu", torch.add),
    "Library.impl": lambda: Library("aten", "IMPL").impl("mm", torch.add, "CPU"),
    "default": lambda: Library("aten", "IMPL").impl("mm", torch.add, "CompositeExplicitAutograd"),
    "register_kernel": lambda: torch.library.register_kernel("aten::mm", "cpu", torch.add),
    "fallback": lambda: Library("_", "IMPL").fallback(torch.add, "CPU"),
    "opcheck": lambda: torch.library.opcheck(torch.ops.aten.sin.default, (torch.ones(3, device="cuda"),)),
    "py_impl": lambda: torch.ops.aten.mm.default.py_impl(torch._C.DispatchKey.CPU)(torch.add),
}


@pytest.mark.parametrize("way", _REFUSED)
def test_torchs_own_kernels_are_neither_replaced_nor_checked(way: str, two_gpus: VirtualMachine) -> None:
    with pytest.raises(NotImplementedError, match="virtual GPU does not support"):
        _REFUSED[way]()


def test_pickling_with_a_custom_pickler_records_a_copy(recorder: Recorder) -> None:
    x = torch.ones(2, device="cuda")
    _, (copy, *_) = x.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[:2]
    copy.zero_()
    assert x.tolist() == [1, 1]
    assert _work(recorder)[(Kind.TRANSFER, "pickle.dumps")] == 1

"""Streams of a backward pass, by PyTorch's `test_streaming_backwards_*` and "Stream semantics of backward passes"."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Event
from tests.support.virtual_gpus import gradient

pytestmark = pytest.mark.usefixtures("recorder")


class MultiplyInStream(torch.autograd.Function):
    """Multiplies by a number, and notes the stream of its backward."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, value: float) -> torch.Tensor:
        ctx.value = value
        return x * value

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        MultiplyInStream.seen.append(torch.cuda.current_stream())
        torch.cuda._sleep(100_000)
        return grad * ctx.value, None


def leaf() -> torch.Tensor:
    return torch.randn(5, 5, device="cuda", requires_grad=True)


def test_a_custom_backward_runs_on_its_forwards_stream() -> None:
    stream, x = torch.cuda.Stream(), leaf()
    MultiplyInStream.seen.clear()
    with torch.cuda.stream(stream):
        y = MultiplyInStream.apply(x, 2)  # type: ignore[no-untyped-call]
    y.sum().backward()
    assert MultiplyInStream.seen == [stream]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.equal(gradient(x), torch.full_like(x, 2))


@pytest.mark.parametrize("first_on_ambient", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_a_leafs_hook_runs_on_the_stream_of_its_first_use(first_on_ambient: bool, times: int) -> None:
    ambient, stream0, stream1 = (torch.cuda.Stream() for _ in range(3))
    seen = []
    with torch.cuda.stream(ambient):
        x = leaf()
        x.register_hook(lambda grad: seen.append(torch.cuda.current_stream()))
        for _ in range(times):
            if first_on_ambient:
                x0 = x.clone()
            with torch.cuda.stream(stream0):
                if not first_on_ambient:
                    x0 = x.clone()
                y0 = MultiplyInStream.apply(x0, 2)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream1):
                loss = (y0 + MultiplyInStream.apply(x, 3)).sum()  # type: ignore[no-untyped-call]
            loss.backward()
    assert seen == [ambient if first_on_ambient else stream0] * times
    assert torch.equal(gradient(x), torch.full_like(x, 5.0 * times))


def test_hooks_of_nodes_and_of_results_see_the_nodes_stream() -> None:
    side, x, seen = torch.cuda.Stream(), leaf(), []
    with torch.cuda.stream(side):
        y = x.exp()
    z = y.sin()
    y.register_hook(lambda grad: seen.append(torch.cuda.current_stream()))
    assert y.grad_fn is not None
    assert z.grad_fn is not None
    y.grad_fn.register_prehook(lambda grads: seen.append(torch.cuda.current_stream()))
    z.grad_fn.register_hook(lambda grads, outputs: seen.append(torch.cuda.current_stream()))
    z.sum().backward()
    assert seen == [torch.cuda.default_stream(), side, side]


def test_a_stream_chosen_in_a_hook_ends_with_its_node() -> None:
    side, other, x, seen = torch.cuda.Stream(), torch.cuda.Stream(), leaf(), []
    with torch.cuda.stream(side):
        y = x.exp()

    def choose(grad: torch.Tensor) -> None:
        with torch.cuda.stream(other):
            seen.append(torch.cuda.current_stream())
        seen.append(torch.cuda.current_stream())
        torch.cuda.set_stream(other)

    y.register_hook(choose)
    y.sum().backward()
    assert seen == [other, side]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_a_callback_runs_on_the_callers_stream_after_the_leaves() -> None:
    s0, s1, s2 = (torch.cuda.Stream() for _ in range(3))
    seen: list[Any] = []
    a, b = leaf(), leaf()
    with torch.cuda.stream(s0):
        c = MultiplyInStream.apply(a, 2)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(s1):
        d = MultiplyInStream.apply(b, 3)  # type: ignore[no-untyped-call]
        e = c * d
    engine: Any = torch.autograd.Variable._execution_engine

    def note() -> None:
        assert a.grad is not None
        assert b.grad is not None
        seen.append(torch.cuda.current_stream())
        torch.cuda.current_stream().synchronize()
        seen.append((s0.query(), s1.query()))

    e.register_hook(lambda grad: engine.queue_callback(note))
    with torch.cuda.stream(s2):
        e.sum().backward()
    assert seen == [s2, (True, True)]


def test_gradients_of_an_intermediate_are_on_its_stream_and_waited_for() -> None:
    side, x = torch.cuda.Stream(), leaf()
    with torch.cuda.stream(side):
        y = MultiplyInStream.apply(x, 2)  # type: ignore[no-untyped-call]
        z = MultiplyInStream.apply(y, 3)  # type: ignore[no-untyped-call]
    (grad,) = torch.autograd.grad(z.sum(), [y])
    torch.cuda.current_stream().synchronize()
    assert side.query()
    assert torch.equal(grad, torch.full_like(x, 3))


def test_nodes_of_a_second_backward_run_on_the_first_ones_stream() -> None:
    side, x, seen = torch.cuda.Stream(), leaf(), []
    with torch.cuda.stream(side):
        y = x.exp()
    (grad,) = torch.autograd.grad(y.sum(), [x], create_graph=True)
    grad.register_hook(lambda value: seen.append(torch.cuda.current_stream()))
    (second,) = torch.autograd.grad(grad.sum(), [x])
    assert seen == [side]
    torch.testing.assert_close(second, x.exp())


def test_a_backward_in_a_hook_keeps_both_passes_streams() -> None:
    side, x, w, seen = torch.cuda.Stream(), leaf(), leaf(), []
    with torch.cuda.stream(side):
        y = x.exp()
        inner = w.sin()
    inner.register_hook(lambda grad: seen.append(("inner", torch.cuda.current_stream())))

    def run_another(grad: torch.Tensor) -> None:
        inner.backward(torch.ones_like(inner))
        seen.append(("outer", torch.cuda.current_stream()))

    y.register_hook(run_another)
    y.sum().backward()
    assert seen == [("inner", side), ("outer", side)]
    torch.testing.assert_close(w.grad, w.cos())


def backward_of_two_branches(recorder: Recorder, *, streams: int) -> list[Event]:
    """Return the long kernels of a backward pass whose branches ran on that many side streams."""
    x, current = leaf(), torch.cuda.current_stream()
    parts = []
    for number in range(2):
        stream = torch.cuda.Stream() if number < streams else current
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            parts.append(MultiplyInStream.apply(x, 2.0))  # type: ignore[no-untyped-call]
    for part in parts:
        part.record_stream(current)
    torch.cuda.synchronize()
    (parts[0] + parts[1]).sum().backward()
    torch.cuda.synchronize()
    return [event for event in recorder.complete() if event.name == "torch.cuda._sleep"]


def test_the_backward_passes_of_two_branches_overlap(recorder: Recorder) -> None:
    later, earlier = backward_of_two_branches(recorder, streams=2)
    assert later.stream != earlier.stream
    assert earlier.start < later.end


def test_on_one_stream_they_follow_each_other(recorder: Recorder) -> None:
    later, earlier = backward_of_two_branches(recorder, streams=0)
    assert earlier.start >= later.end


def test_a_node_waits_for_the_gradients_that_it_gets(recorder: Recorder) -> None:
    x, current, side = leaf(), torch.cuda.current_stream(), torch.cuda.Stream()
    first = MultiplyInStream.apply(x, 2.0)  # type: ignore[no-untyped-call]
    side.wait_stream(current)
    with torch.cuda.stream(side):
        # The gradient of an addition of a number is no kernel: its wait is made up for.
        second = MultiplyInStream.apply(first + 1, 3.0)  # type: ignore[no-untyped-call]
    current.wait_stream(side)
    second.sum().backward()
    torch.cuda.synchronize()
    on_side, on_current = (event for event in recorder.complete() if event.name == "torch.cuda._sleep")
    assert (on_side.stream != 0, on_current.stream) == (True, 0)
    assert on_current.start >= on_side.end


def test_transforms_of_functions_run_on_a_side_stream() -> None:
    x = torch.tensor([0.5, 1.0, 2.0], device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.testing.assert_close(torch.func.jacrev(torch.sin)(x), torch.diag(x.cos()))
        torch.testing.assert_close(torch.func.vjp(torch.sin, x)[1](x)[0], x * x.cos())
        hessian: Any = torch.func.hessian(lambda value: value.sin().sum())(x)
        torch.testing.assert_close(hessian, torch.diag(-x.sin()))


class _Doubled(torch.autograd.Function):
    """Doubles; its backward makes a tensor on GPU 0, and then doubles on the current device."""

    seen: ClassVar[list[int]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        _Doubled.seen.append(torch.cuda.current_device())
        with torch.cuda.device(0):
            _Doubled.seen.append(torch.ones(1, device="cuda").get_device())
        return gradients[0] * torch.full((2,), 2.0, device="cuda")


def test_a_nodes_gpu_is_the_current_device_of_its_backward() -> None:
    _Doubled.seen.clear()
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    host = torch.ones(2, requires_grad=True)
    hooked = []
    host.register_hook(lambda _: hooked.append(torch.cuda.current_device()))
    doubled: Any = _Doubled.apply(x)  # type: ignore[no-untyped-call]
    (doubled.sum() + host.cuda("cuda:1").sum()).backward()
    assert _Doubled.seen == [1, 0]
    assert hooked == [0]
    assert torch.cuda.current_device() == 0
    assert gradient(x).tolist() == [2.0, 2.0]

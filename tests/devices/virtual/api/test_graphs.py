"""CUDA graphs: captures and replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine
from gpututor.trace.events import Kind

CUDA: Any = torch.cuda
MIB = 1 << 20


def _captured(work: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph, **options):
        out = work()
    return graph, out


def _elapsed(work: Callable[[], Any]) -> float:
    start, end = CUDA.Event(enable_timing=True), CUDA.Event(enable_timing=True)
    CUDA.synchronize()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def test_a_replay_reads_the_current_values_of_its_inputs(two_gpus: VirtualMachine) -> None:
    x, w = torch.ones(3, device="cuda"), torch.full((3,), 2.0, device="cuda")
    graph, (y, total) = _captured(lambda: (x * w + 1, (x * w).sum()))
    address = y.data_ptr()
    x.copy_(torch.tensor([1.0, 2.0, 3.0]))
    graph.replay()
    assert (y.tolist(), total.item(), y.data_ptr()) == ([3.0, 5.0, 7.0], 12.0, address)
    w.zero_()
    graph.replay()
    assert (y.tolist(), total.item()) == ([1.0] * 3, 0.0)


def test_a_capture_runs_no_kernel(two_gpus: VirtualMachine) -> None:
    norm: Any = nn.BatchNorm1d(3).cuda()
    count = torch.zeros(1, device="cuda")
    rows = torch.randn(4, 3, device="cuda")
    CUDA.manual_seed(1)

    def work() -> Any:
        count.add_(1)
        norm(rows)
        return torch.rand(2, device="cuda")

    graph, drawn = _captured(work)
    assert (count.item(), norm.running_mean.abs().sum().item()) == (0, 0)
    assert CUDA.current_stream().query()
    expected = CUDA.get_rng_state()
    CUDA.manual_seed(1)
    assert torch.equal(CUDA.get_rng_state(), expected)
    graph.replay()
    assert count.item() == 1
    assert norm.running_mean.abs().sum().item() > 0
    first = drawn.tolist()
    graph.replay()
    assert (count.item(), drawn.tolist() != first) == (2, True)
    CUDA.manual_seed(1)
    assert torch.rand(2, device="cuda").tolist() == first


def test_python_numbers_are_frozen_at_capture(two_gpus: VirtualMachine) -> None:
    x, factor, on_host = torch.ones(2, device="cuda"), 2.0, torch.tensor(3.0)
    graph, y = _captured(lambda: x * factor * on_host)
    on_host.fill_(100)
    graph.replay()
    assert y.tolist() == [6.0, 6.0]


def test_a_replay_is_a_single_launch_of_consecutive_kernels(two_gpus: VirtualMachine) -> None:
    x = torch.ones(8, device="cuda")

    def work() -> None:
        for _ in range(50):
            x.add_(1)

    graph, _ = _captured(work)
    host = two_gpus.clock.host
    before = host.now
    graph.replay()
    assert host.now - before == two_gpus.gpus[0].launch_ns
    assert x[0].item() == 51
    assert _elapsed(graph.replay) < _elapsed(work) / 3


def test_the_trace_has_replayed_kernels_and_no_captured_kernels(recorder: Recorder) -> None:
    x = torch.ones(8, device="cuda")
    graph, _ = _captured(lambda: x.sin().cos())

    def kernels() -> list[str]:
        return [event.name for event in recorder.trace if event.kind is Kind.KERNEL and event.name != "aten::ones"]

    captured = kernels()
    assert not {"aten::sin", "aten::cos"} & set(captured)
    graph.replay()
    graph.replay()
    assert kernels()[len(captured) :] == ["aten::sin", "aten::cos"] * 2


def test_branches_forked_by_events_run_concurrently(two_gpus: VirtualMachine) -> None:
    x, other = torch.ones(2, device="cuda"), CUDA.Stream()

    def work() -> Any:
        y = x * 2
        other.wait_stream(CUDA.current_stream())
        with CUDA.stream(other):
            assert CUDA.is_current_stream_capturing()
            CUDA._sleep(1_000_000)
            left = y + 1
        CUDA._sleep(1_000_000)
        right = y + 2
        CUDA.current_stream().wait_stream(other)
        return left + right

    graph, out = _captured(work)
    x.fill_(10)
    assert _elapsed(graph.replay) < 1.5 * _elapsed(lambda: CUDA._sleep(1_000_000))
    assert out.tolist() == [43.0, 43.0]


def test_pinned_copies_are_captured(two_gpus: VirtualMachine) -> None:
    source, target = torch.ones(4).pin_memory(), torch.zeros(4).pin_memory()
    x = torch.zeros(4, device="cuda")

    def work() -> None:
        x.copy_(source, non_blocking=True)
        target.copy_(x * 2, non_blocking=True)

    graph, _ = _captured(work)
    assert (x.tolist(), target.tolist()) == ([0.0] * 4, [0.0] * 4)
    source.fill_(5)
    graph.replay()
    CUDA.synchronize()
    assert (x.tolist(), target.tolist()) == ([5.0] * 4, [10.0] * 4)


def test_a_graph_keeps_its_memory_until_reset(two_gpus: VirtualMachine) -> None:
    x = torch.ones(MIB, device="cuda")

    def work() -> Any:
        y = x * 2
        z = y + 1
        del y
        w = z * 3
        del z
        return w

    before = CUDA.memory_allocated(), CUDA.memory_reserved()
    graph, out = _captured(work)
    # The third tensor is where the first one was. The seed and the offset of random numbers take a small segment.
    assert CUDA.memory_allocated() - before[0] == 4 * MIB + 2 * 512
    assert CUDA.memory_reserved() - before[1] == 22 * MIB
    del out
    CUDA.empty_cache()
    assert (CUDA.memory_allocated(), CUDA.memory_reserved()) == (before[0] + 2 * 512, before[1] + 22 * MIB)
    graph.reset()
    CUDA.empty_cache()
    assert (CUDA.memory_allocated(), CUDA.memory_reserved()) == before


def test_graphs_can_share_their_memory(two_gpus: VirtualMachine) -> None:
    x = torch.ones(MIB, device="cuda")
    handle = CUDA.graph_pool_handle()
    first, out = _captured(lambda: x * 2, pool=handle)
    reserved = CUDA.memory_reserved()
    second, other = _captured(lambda: out * 2, pool=first.pool())
    assert (CUDA.memory_reserved(), first.pool(), second.pool()) == (reserved, handle, handle)
    x.fill_(3)
    first.replay()
    second.replay()
    assert other[0].item() == 12


def _three_graphs(pool: Any) -> tuple[list[Any], Any, Any]:
    """Capture three graphs; the memory that the second one frees is the third one's, if they share a pool."""
    a = torch.ones(1000, device="cuda")
    first, (c, d) = _captured(lambda: (a.clone() + 1, a + 2), pool=pool)
    given = [c]
    del c
    second, e = _captured(lambda: given.pop() + 3, pool=pool)
    third, f = _captured(lambda: d + 4, pool=pool)
    return [first, second, third], e, f


@pytest.mark.parametrize("shared", [True, False])
def test_graphs_that_share_a_pool_overwrite_each_other(two_gpus: VirtualMachine, shared: bool) -> None:
    graphs, e, f = _three_graphs(CUDA.graph_pool_handle() if shared else None)
    for graph in graphs:
        graph.replay()
    assert (e[0].item(), f[0].item()) == (5, 7)
    for number in (0, 2, 1):
        graphs[number].replay()
    assert (e[0].item(), f[0].item()) == (10 if shared else 5, 7)


def test_a_graph_that_is_gone_overwrites_nothing(two_gpus: VirtualMachine) -> None:
    (first, second, third), e, _ = _three_graphs(CUDA.graph_pool_handle())
    third.reset()
    first.replay()
    second.replay()
    assert e[0].item() == 5


def test_segments_of_a_graph_show_its_pool(two_gpus: VirtualMachine) -> None:
    handle = CUDA.graph_pool_handle()
    x = torch.ones(MIB, device="cuda")
    graph, out = _captured(lambda: x * 2, pool=handle)
    pools = {
        block["address"]: segment["segment_pool_id"]
        for segment in CUDA.memory_snapshot()
        for block in segment["blocks"]
    }
    assert (pools[x.data_ptr()], pools[out.data_ptr()]) == ((0, 0), handle)
    assert graph.pool() == handle


def test_a_captured_training_step_trains_as_the_eager_step(two_gpus: VirtualMachine) -> None:
    def trained(in_a_graph: bool) -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0), nn.Tanh(), nn.Linear(8, 1)).cuda()
        adam = torch.optim.Adam(net.parameters(), lr=0.1, capturable=True)
        rows, wanted = torch.zeros(16, 4, device="cuda"), torch.zeros(16, 1, device="cuda")

        def step() -> None:
            adam.zero_grad(set_to_none=True)
            nn.functional.mse_loss(net(rows), wanted).backward()
            adam.step()

        side = CUDA.Stream()
        side.wait_stream(CUDA.current_stream())
        with CUDA.stream(side):
            for _ in range(3):
                step()
        CUDA.current_stream().wait_stream(side)
        run: Callable[[], Any] = step
        if in_a_graph:
            graph, _ = _captured(step)
            run = graph.replay
        generator = torch.Generator().manual_seed(1)
        for _ in range(5):
            rows.copy_(torch.randn(16, 4, generator=generator))
            wanted.copy_(rows.sum(1, keepdim=True))
            run()
        return [value for parameter in net.parameters() for value in parameter.flatten().tolist()]

    assert trained(in_a_graph=True) == pytest.approx(trained(in_a_graph=False), rel=1e-5)


def test_make_graphed_callables_gives_the_same_values_and_gradients(two_gpus: VirtualMachine) -> None:
    torch.manual_seed(0)
    net: Any = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
    rows = torch.randn(3, 4, device="cuda")
    expected = net(rows)
    expected.sum().backward()
    gradient = net[0].weight.grad.clone()
    net.zero_grad()
    graphed = CUDA.make_graphed_callables(net, (torch.randn(3, 4, device="cuda"),))
    result = graphed(rows)
    result.sum().backward()
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(net[0].weight.grad, gradient)


def test_results_hold_nonsense_until_the_first_replay(two_gpus: VirtualMachine) -> None:
    x, total = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tripled = x * 3
        places = tripled.argsort()
        total += tripled
    assert tripled.isnan().all()
    assert (places < 0).all()
    assert total.tolist() == [0.0] * 4
    graph.replay()
    assert tripled.tolist() == total.tolist() == [3.0] * 4
    assert sorted(places.tolist()) == [0, 1, 2, 3]

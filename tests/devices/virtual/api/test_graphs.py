"""CUDA graphs: captures and replays."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine
from gpututor.trace.events import Kind
from gpututor.trace.hazards import FREED_BEFORE_REPLAY
from tests.support.virtual_gpus import captured, names_of

CUDA: Any = torch.cuda
MIB = 1 << 20


def test_a_capture_runs_no_kernel(two_gpus: VirtualMachine) -> None:
    norm: Any = nn.BatchNorm1d(3).cuda()
    rows = torch.randn(4, 3, device="cuda")
    graph, out = captured(lambda: norm(rows))
    address = out.data_ptr()
    assert norm.running_mean.abs().sum().item() == 0
    assert CUDA.current_stream().query()
    graph.replay()
    assert norm.running_mean.abs().sum().item() > 0
    assert out.data_ptr() == address


def test_a_capture_in_inference_mode_is_replayed_outside_of_it(two_gpus: VirtualMachine) -> None:
    rows = torch.ones(2, device="cuda")
    for inside in (True, False):
        graph = CUDA.CUDAGraph()
        if inside:
            with torch.inference_mode(), CUDA.graph(graph):
                doubled = rows * 2
        else:
            with CUDA.graph(graph), torch.inference_mode():
                doubled = rows * 2
        rows.fill_(3)
        graph.replay()
        assert doubled.is_inference()
        assert doubled.tolist() == [6.0, 6.0]


def test_python_numbers_are_frozen_at_capture(two_gpus: VirtualMachine) -> None:
    x, factor, on_host = torch.ones(2, device="cuda"), 2.0, torch.tensor(3.0)
    graph, y = captured(lambda: x * factor * on_host)
    on_host.fill_(100)
    graph.replay()
    assert y.tolist() == [6.0, 6.0]


def test_a_replay_is_a_single_launch_of_consecutive_kernels(two_gpus: VirtualMachine) -> None:
    x = torch.ones(8, device="cuda")

    def work() -> None:
        for _ in range(50):
            x.add_(1)

    graph, _ = captured(work)
    host = two_gpus.clock.host
    before = host.now
    graph.replay()
    assert host.now - before == two_gpus.gpus[0].launch_ns
    assert x[0].item() == 51


def test_the_trace_has_replayed_kernels_and_no_captured_kernels(recorder: Recorder) -> None:
    x = torch.ones(8, device="cuda")
    graph, _ = captured(lambda: x.sin().cos())

    def kernels() -> list[str]:
        return [event.name for event in recorder.trace if event.kind is Kind.KERNEL and event.name != "aten::ones"]

    before = kernels()
    assert not {"aten::sin", "aten::cos"} & set(before)
    graph.replay()
    graph.replay()
    assert kernels()[len(before) :] == ["aten::sin", "aten::cos"] * 2


def test_branches_forked_by_events_are_replayed(two_gpus: VirtualMachine) -> None:
    x, other = torch.ones(2, device="cuda"), CUDA.Stream()

    def work() -> Any:
        y = x * 2
        other.wait_stream(CUDA.current_stream())
        with CUDA.stream(other):
            assert CUDA.is_current_stream_capturing()
            left = y + 1
        right = y + 2
        CUDA.current_stream().wait_stream(other)
        return left + right

    graph, out = captured(work)
    x.fill_(10)
    graph.replay()
    assert out.tolist() == [43.0, 43.0]


def test_pinned_copies_are_captured(two_gpus: VirtualMachine) -> None:
    source, target = torch.ones(4).pin_memory(), torch.zeros(4).pin_memory()
    x = torch.zeros(4, device="cuda")

    def work() -> None:
        x.copy_(source, non_blocking=True)
        target.copy_(x * 2, non_blocking=True)

    graph, _ = captured(work)
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
    graph, out = captured(work)
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
    first, out = captured(lambda: x * 2, pool=handle)
    reserved = CUDA.memory_reserved()
    second, other = captured(lambda: out * 2, pool=first.pool())
    assert (CUDA.memory_reserved(), first.pool(), second.pool()) == (reserved, handle, handle)
    x.fill_(3)
    first.replay()
    second.replay()
    assert other[0].item() == 12
    pools = {
        block["address"]: segment["segment_pool_id"]
        for segment in CUDA.memory_snapshot()
        for block in segment["blocks"]
    }
    assert (pools[x.data_ptr()], pools[out.data_ptr()]) == ((0, 0), handle)


def _three_graphs(pool: Any) -> tuple[list[Any], Any, Any]:
    """Capture three graphs; the memory that the second one frees is the third one's, if they share a pool."""
    a = torch.ones(1000, device="cuda")
    first, (c, d) = captured(lambda: (a.clone() + 1, a + 2), pool=pool)
    given = [c]
    del c
    second, e = captured(lambda: given.pop() + 3, pool=pool)
    third, f = captured(lambda: d + 4, pool=pool)
    return [first, second, third], e, f


@pytest.mark.parametrize("shared", [True, False])
def test_graphs_that_share_a_pool_overwrite_each_other(two_gpus: VirtualMachine, shared: bool) -> None:
    """A graph that is gone overwrites nothing."""
    graphs, e, f = _three_graphs(CUDA.graph_pool_handle() if shared else None)
    for graph in graphs:
        graph.replay()
    assert (e[0].item(), f[0].item()) == (5, 7)
    for number in (0, 2, 1):
        graphs[number].replay()
    assert (e[0].item(), f[0].item()) == (10 if shared else 5, 7)
    graphs.pop().reset()
    for graph in graphs:
        graph.replay()
    assert e[0].item() == 5


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
            graph, _ = captured(step)
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
    graph, (tripled, places, _) = captured(lambda: (tripled := x * 3, tripled.argsort(), total.add_(tripled)))
    assert tripled.isnan().all()
    assert (places < 0).all()
    assert total.tolist() == [0.0] * 4
    graph.replay()
    assert tripled.tolist() == total.tolist() == [3.0] * 4
    assert sorted(places.tolist()) == [0, 1, 2, 3]


def test_a_copy_to_another_dtype_is_undefined_until_the_first_replay(two_gpus: VirtualMachine) -> None:
    x, pinned = torch.ones(4, device="cuda"), torch.full((4,), 2.0).pin_memory()
    graph, (half, doubled, moved) = captured(lambda: (half := x.half(), half * 2, pinned.to("cuda", non_blocking=True)))
    assert all(result.isnan().all() for result in (half, doubled, moved))
    x.fill_(3)
    graph.replay()
    assert (half.tolist(), doubled.tolist(), moved.tolist()) == ([3.0] * 4, [6.0] * 4, [2.0] * 4)


def test_a_copy_takes_the_memory_that_its_pool_has_free(two_gpus: VirtualMachine) -> None:
    x, y, pool = torch.ones(1000, device="cuda"), torch.full((1000,), 2.0, device="cuda"), CUDA.graph_pool_handle()
    first, results = captured(lambda: [x.half()], pool=pool)
    address = results.pop().data_ptr()
    second, half = captured(lambda: y.half(), pool=pool)
    assert half.data_ptr() == address
    for graph, value in ((second, 2), (first, 1)):
        graph.replay()
        assert half[0].item() == value


def test_a_checkpoint_in_a_capture_repeats_its_random_numbers(two_gpus: VirtualMachine) -> None:
    x = torch.ones(64, device="cuda", requires_grad=True)

    def step() -> Any:
        out = checkpoint(lambda x: nn.functional.dropout(x, 0.5), x, use_reentrant=False)
        (slope,) = torch.autograd.grad(out.sum(), x)
        return out, slope, torch.rand(8, device="cuda")

    graph, (out, slope, after) = captured(step)
    graph.replay()
    first, drawn = out.tolist(), after.tolist()
    assert slope.tolist() == first
    graph.replay()
    assert slope.tolist() == out.tolist() != first
    assert after.tolist() != drawn
    assert CUDA.default_generators[0].get_offset() == 2 * 8


@pytest.mark.parametrize("keeps", [True, False])
def test_a_replay_after_an_input_was_freed_is_a_hazard(recorder: Recorder, keeps: bool) -> None:
    inputs = [torch.ones(1000, device="cuda")]
    graph, _ = captured(lambda: inputs[0] * 2)
    if not keeps:
        inputs.clear()
    torch.full((1000,), 5.0, device="cuda")
    graph.replay()
    assert names_of(recorder.complete(), Kind.HAZARD) == [FREED_BEFORE_REPLAY] * (not keeps)


def test_memory_of_the_graph_itself_may_be_freed(recorder: Recorder) -> None:
    x, pool = torch.ones(1000, device="cuda"), CUDA.graph_pool_handle()
    first, results = captured(lambda: [x * 2], pool=pool)
    second, out = captured(lambda: results.pop() + torch.zeros(1000, device="cuda"), pool=pool)
    for graph in (first, second):
        graph.replay()
    assert out[0].item() == 2
    assert names_of(recorder.complete(), Kind.HAZARD) == []


def test_a_graph_may_refuse_to_replay_with_freed_inputs(two_gpus: VirtualMachine) -> None:
    inputs = [torch.ones(4, device="cuda")]
    address = inputs[0].data_ptr()
    graph, out = captured(lambda: inputs[0] * 2, check_input_liveness=True)
    graph.replay()
    assert out.tolist() == [2.0] * 4
    inputs.clear()
    with pytest.raises(RuntimeError, match=rf"detected 1 dead tensor\(s\)\.\n.*data_ptr={address:#x}"):
        graph.replay()


def _dot_of(graph: Any, path: Path) -> str:
    with pytest.warns(UserWarning, match=r"DEBUG: calling debug_dump\(\)"):
        graph.debug_dump(str(path))
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_a_debugged_graph_is_dumped_with_its_kernels_and_their_order(two_gpus: VirtualMachine, tmp_path: Path) -> None:
    graph, side = CUDA.CUDAGraph(), CUDA.Stream()
    graph.enable_debug_mode()
    x = torch.ones(4, device="cuda")
    with CUDA.graph(graph):
        y = x + 1
        side.wait_stream(CUDA.current_stream())
        with CUDA.stream(side):
            z = y * 2
        w = y.exp()
        CUDA.current_stream().wait_stream(side)
        z + w
    text = _dot_of(graph, tmp_path / "graph.dot")
    assert text.startswith("digraph dot {")
    assert text.count("KERNEL") == 4
    edges = sorted(re.findall(r'node_(\d)" -> "graph_1_node_(\d)', text))
    assert edges == [("0", "1"), ("0", "2"), ("1", "3"), ("2", "3")]
    # CUDA destroys its structure after the first dump.
    assert _dot_of(graph, tmp_path / "again.dot") == ""


def test_a_graph_without_debug_mode_is_not_dumped(two_gpus: VirtualMachine, tmp_path: Path) -> None:
    x = torch.ones(4, device="cuda")
    graph, _ = captured(lambda: x + 1)
    with pytest.warns(UserWarning, match="CUDA Graphs debug not enabled"):
        graph.debug_dump(str(tmp_path / "graph.dot"))
    assert list(tmp_path.iterdir()) == []
    kept = CUDA.CUDAGraph(keep_graph=True)
    with CUDA.graph(kept):
        x + 1
    assert "KERNEL" in _dot_of(kept, tmp_path / "kept.dot")
    assert "KERNEL" in _dot_of(kept, tmp_path / "kept_again.dot")

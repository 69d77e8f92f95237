"""The kernels of compiled code: those that Inductor launched for the same programs on an H200."""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn import functional as F

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import COMPILES, REGION, Event, Kind
from tests.support import ROOT
from tests.support.virtual_gpus import names_of, printed

MEASURED = {
    row[0]: row[4] for row in json.loads((ROOT / "benchmarks/data/h200_compile.json").read_text("utf-8"))["programs"]
}


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _events(function: Callable[..., Any], *shapes: tuple[int, ...], grad: bool = False, **options: Any) -> list[Event]:
    """Return the events of the third call on an H200, without values; a module is moved there."""
    with virtual_gpu(1, "H200", values=False, recorder=Recorder([__file__])) as machine:
        if isinstance(function, nn.Module):
            function = copy.deepcopy(function).cuda()
        compiled = torch.compile(function, **options)
        inputs = [torch.empty(shape, device="cuda") for shape in shapes]
        for _ in range(3):
            before = len(machine.recorder.trace)
            with torch.set_grad_enabled(grad):
                out = compiled(*inputs)
                if grad:
                    out.square().mean().backward()
            torch.cuda.synchronize()
        return list(machine.recorder.complete())[before:]


def _kernels(events: list[Event]) -> list[str]:
    return [event.name for event in events if event.kind is Kind.KERNEL]


SQUARE = "4096 x 4096"


@pytest.mark.parametrize(
    ("program", "function"),
    [
        (f"(gelu(x) * x + 1).tanh(), x: {SQUARE}", lambda x: (F.gelu(x) * x + 1).tanh()),
        (f"layer_norm(x, (4096,)).relu(), x: {SQUARE}", lambda x: F.layer_norm(x, (4096,)).relu()),
        (f"(x * x).sum(), x: {SQUARE}", lambda x: (x * x).sum()),
        (
            f"(x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True), x: {SQUARE}",
            lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
        ),
    ],
    ids=["pointwise", "layer_norm", "sum", "std"],
)
def test_names_and_times_are_those_of_a_real_gpu(program: str, function: Callable[..., Any]) -> None:
    events = [event for event in _events(function, (4096, 4096)) if event.kind is Kind.KERNEL]
    assert [event.name for event in events] == [name for name, _, _ in MEASURED[program]]
    for event, (_, _, microseconds) in zip(events, MEASURED[program], strict=True):
        assert event.end - event.start == pytest.approx(microseconds * 1000, rel=0.25, abs=1000)


def test_library_kernels_stay_and_the_rest_is_fused() -> None:
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
    assert _kernels(_events(model, (256, 1024))) == ["aten::mm", "triton_poi_fused_addmm_gelu_0", "aten::addmm"]
    trained = _kernels(_events(model, (256, 1024), grad=True))
    assert [name for name in trained if "triton" in name] == [
        "triton_poi_fused_gelu_0", "triton_red_fused_sum_0", "triton_per_fused_sum_1",
        "triton_poi_fused_gelu_gelu_backward_2", "triton_red_fused_sum_3", "triton_per_fused_sum_4",
    ]  # fmt: skip


def test_convolutions_have_adjacent_channels_inside_and_the_layout_of_eager_code_outside() -> None:
    convolution = nn.Conv2d(64, 128, 3)
    assert _kernels(_events(convolution, (4, 64, 64, 64))) == [
        "triton_poi_fused_convolution_0", "triton_poi_fused_convolution_1", "aten::convolution",
        "triton_poi_fused_convolution_2",
    ]  # fmt: skip
    pooled = _kernels(_events(nn.Sequential(convolution, nn.ReLU(), nn.AdaptiveAvgPool2d(1)), (4, 64, 64, 64)))
    assert len([name for name in pooled if name == "aten::convolution"]) == 1
    assert all("relu" in name for name in pooled[3:])


def test_windows_cost_more_than_their_bytes() -> None:
    def seconds(pool: Callable[..., Any]) -> int:
        return sum(event.end - event.start for event in _events(pool, (32, 64, 256, 256)) if event.kind is Kind.KERNEL)

    relu = seconds(lambda x: x.relu())
    assert seconds(lambda x: F.max_pool2d(x, 4, 1, 1)) > 1.5 * relu
    assert seconds(lambda x: F.max_pool2d(x, 7, 1, 3)) > 1.5 * relu


def test_attention_is_cudas_kernel() -> None:
    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q.half(), q.half(), q.half()) * 2

    names = _kernels(_events(attend, (2, 4, 128, 64)))
    assert "aten::_scaled_dot_product_cudnn_attention" in names

    def drop(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q.half(), q.half(), q.half(), dropout_p=0.5) * 2

    assert _kernels(_events(drop, (2, 4, 128, 64))) == names


def test_a_call_is_a_range_and_a_compilation_is_another() -> None:
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        double = torch.compile(lambda x: x * 2)
        x = torch.ones(8, device="cuda")
        double(x)
        compiled_at = machine.clock.host.now
        double(x)
        # Compilation takes the host a good part of a second; a call takes microseconds.
        assert 0.2e9 < compiled_at < 5e9
        assert machine.clock.host.now - compiled_at < 1e6
    ranges = names_of(machine.recorder.trace, Kind.RANGE)
    assert ranges == [f"{COMPILES}0/0, 1 kernels", f"{REGION}0/0", f"{REGION}0/0"]


def test_kernels_name_the_learners_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y @ y

    lines = [event.line for event in _events(function, (64, 64)) if event.kind is Kind.KERNEL]
    first = function.__code__.co_firstlineno
    assert lines == [first + 1, first + 2]


def _launches(events: list[Event]) -> int:
    return len({event.launched for event in events if event.kind is Kind.KERNEL})


def test_reduce_overhead_replays_a_graph() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    assert _launches(_events(model, (8, 64))) == 3
    assert _launches(_events(model, (8, 64), mode="reduce-overhead")) == 1


def test_mutated_inputs_are_not_replayed() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return (x @ x).relu()

    assert _launches(_events(write, (64, 64), mode="reduce-overhead")) == 3


def _results_of(calls: int, mode: str | None, *, grad: bool = False) -> list[torch.Tensor]:
    """Return the results of calls with 1, 2, … of a graph that doubles its input."""
    double = torch.compile(lambda x: x * 2, mode=mode)
    inputs = [torch.full((3,), float(number), device="cuda", requires_grad=grad) for number in range(1, calls + 1)]
    return [double(x) for x in inputs]


def test_results_of_calls_that_prepare_a_replay_end_at_the_next() -> None:
    with virtual_gpu():
        first, second, third = _results_of(3, "reduce-overhead")
        for result in (first, second):
            for use in (lambda x: x + 1, lambda x: torch.stack([third, x]), lambda x: x.tolist(), lambda x: x[0]):
                with pytest.raises(RuntimeError, match="CUDAGraphs that has been overwritten by a subsequent run"):
                    use(result)
        assert third.tolist() == [6.0] * 3
        assert first.device == third.device


def test_views_of_overwritten_results_are_overwritten_too() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        x = torch.ones(3, device="cuda")
        kept = [double(x).detach(), double(x)[1:], double(x).view(3, 1), double(x).detach()]
        for view in kept[:2]:
            with pytest.raises(RuntimeError, match="CUDAGraphs that has been overwritten by a subsequent run"):
                view + 1
        assert (kept[2].tolist(), kept[3].tolist()) == ([[2.0]] * 3, [2.0] * 3), "replays raise no error"


def test_results_of_replays_share_memory_and_clones_do_not() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: (x * 2, x), mode="reduce-overhead")
        inputs = [torch.full((3,), float(number), device="cuda") for number in range(1, 7)]
        pairs = [double(x) for x in inputs]
        assert [pair[0].tolist()[0] for pair in pairs[2:]] == [12.0] * 4
        assert pairs[3][0].data_ptr() == pairs[5][0].data_ptr()
        assert [pair[1].tolist()[0] for pair in pairs] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "arguments are not results"
        kept = [double(x)[0].clone() for x in inputs]
        assert [result.tolist()[0] for result in kept] == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_a_call_overwrites_earlier_results_before_it_reads_its_arguments() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        x = torch.ones(3, device="cuda")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="has been overwritten by a subsequent run"):
                double(double(x))
        once = double(x)
        assert (double(once).tolist(), once.tolist()) == ([4.0] * 3, [4.0] * 3), "as measured on an H100"


def test_graphs_of_several_functions_and_sizes_share_a_pool() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        repeat = torch.compile(lambda x: x.repeat(200) + 3, mode="reduce-overhead")
        results = [
            function(torch.full((4,), float(n), device="cuda")) for n in range(4) for function in (double, repeat)
        ]
        assert [result[0].item() for result in results[4:]] == [6.0] * 4, "as measured on an H100"


def test_a_marked_step_keeps_the_results_of_all_its_calls() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        for n in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            once = double(torch.full((3,), float(n), device="cuda"))
            assert (double(once).tolist(), once.tolist()) == ([4.0 * n] * 3, [2.0 * n] * 3)


def _train(steps: int, **options: Any) -> list[torch.Tensor]:
    """Return the outputs of a model that is trained in replayed graphs; `set_to_none` as for `zero_grad`."""
    model = nn.Linear(4, 1, device="cuda")
    compiled, outputs = torch.compile(model, mode="reduce-overhead"), []
    for step in range(steps):
        outputs.append(compiled(torch.full((2, 4), float(step), device="cuda")))
        outputs[-1].sum().backward()
        if options:
            model.zero_grad(**options)
    return outputs


def test_results_of_training_end_after_their_backward_pass() -> None:
    with virtual_gpu():
        outputs = _train(5, set_to_none=True)
        for prepared in outputs[:2]:
            with pytest.raises(RuntimeError, match="accessing tensor output of CUDAGraphs"):
                prepared.tolist()
        assert outputs[2].tolist() == outputs[4].tolist()


def test_pytorch_warns_of_results_whose_backward_pass_does_not_run() -> None:
    with virtual_gpu(), pytest.warns(UserWarning, match="outputs from a previous step still require backward"):
        _results_of(4, "reduce-overhead", grad=True)


def test_gradients_that_a_graph_made_cannot_be_added_to() -> None:
    with virtual_gpu(), pytest.raises(RuntimeError, match="accessing gradient tensor output of CUDAGraphs"):
        _train(2)


def test_results_that_no_replay_overwrites_stay() -> None:
    with virtual_gpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mode, grad in ((None, False), ("reduce-overhead", True)):
            assert [result.tolist()[0] for result in _results_of(5, mode, grad=grad)] == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_a_graph_with_cpu_tensors_is_not_replayed_and_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_gpu():
        double = torch.compile(lambda x, y: (x * 2, y + 1), mode="reduce-overhead")
        with pytest.warns(UserWarning, match=r"eager kernels on the virtual GPU.*\(cpu, cuda:0\)"):
            outs = double(torch.ones(4, device="cuda"), torch.ones(4))
        assert [out.tolist() for out in outs] == [[2.0] * 4] * 2
    assert "skipping cudagraphs due to cpu device" in caplog.text


def test_compiled_code_is_ordered_like_other_kernels() -> None:
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        double = torch.compile(lambda x: x * 2)
        x = torch.ones(1 << 20, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            out = double(x)
        out.sum()
    assert names_of(machine.recorder.complete(), Kind.HAZARD) == ["read after write"] * 2


def test_compiled_code_in_a_cuda_graph() -> None:
    with virtual_gpu():
        double = torch.compile(lambda x: x * 2)
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            double(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = double(x)
        x.fill_(3)
        graph.replay()
        assert out.tolist() == [6.0] * 4


def test_what_cannot_be_lowered_runs_eagerly_and_says_so() -> None:
    with virtual_gpu():
        x = torch.ones(4, device="cuda")
        with pytest.warns(UserWarning, match="runs with eager kernels on the virtual GPU.* several devices") as seen:
            out = torch.compile(lambda x: (x.cpu() + 1).cuda() * 2)(x)
        assert [warning.filename for warning in seen] == [__file__]
        assert out.tolist() == [4.0] * 4


def test_a_custom_operator_runs_with_the_kernels_of_its_body() -> None:
    @torch.library.custom_op("test_kernels::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    square.register_fake(torch.empty_like)

    def program(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = square(x + 1) * 2
        return out

    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        x = torch.ones(2, 2, device="cuda")
        with pytest.warns(UserWarning, match=r"eager kernels on the virtual GPU.* test_kernels::square"):
            assert torch.compile(program)(x).tolist() == [[16.0] * 2] * 2
    assert names_of(machine.recorder.complete(), Kind.KERNEL)[1:] == ["aten::add", "aten::mm", "aten::mul"]


def test_the_host_waits_for_an_upload_in_a_compiled_graph() -> None:
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        double = torch.compile(lambda x: x.to("cuda") * 2)
        x = torch.ones(1 << 20)
        double(x)
        before, began = len(machine.recorder.trace), machine.clock.host.now
        assert double(x)[0].item() == 2
        ended = machine.clock.host.now
        events = list(machine.recorder.complete())[before:]
    (upload,) = (event for event in events if event.kind is Kind.TRANSFER and event.target == "cuda:0")
    assert began < upload.start < upload.end < ended
    (kernel,) = (event for event in events if event.kind is Kind.KERNEL)
    assert kernel.launched > upload.end


def test_library_kernels_are_named_after_their_operators() -> None:
    def put(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x.index_put_((index,), x[:2] + 1, accumulate=True)
        return x @ x

    with virtual_gpu(recorder=Recorder([__file__])) as machine, torch.no_grad():
        torch.use_deterministic_algorithms(True)
        try:
            torch.compile(put)(torch.ones(64, 64, device="cuda"), torch.tensor([3, 3], device="cuda"))
        finally:
            torch.use_deterministic_algorithms(False)
    names = names_of(machine.recorder.complete(), Kind.KERNEL)
    assert [name for name in names if "triton" not in name] == ["aten::ones", "aten::index_put_", "aten::mm"]


def test_numbers_that_depend_on_values_run_eagerly_and_are_named() -> None:
    config: Any = torch._dynamo.config
    with virtual_gpu(), config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        x = torch.tensor([1.0, -1.0, 3.0], device="cuda")
        for program, expected in (
            (lambda x: x[x > 0] * 2, [2.0, 6.0]),
            (lambda x: x * x.max().item(), [3.0, -3.0, 9.0]),
        ):
            with pytest.warns(UserWarning, match="sizes or numbers that depend on values"):
                assert torch.compile(program, fullgraph=True)(x).tolist() == expected


def test_each_size_of_a_dynamic_graph_is_recorded_before_its_replay(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    config: Any = torch._inductor.config
    with (
        virtual_gpu(1, "H200", values=False, recorder=Recorder([__file__])) as machine,
        config.patch({"triton.cudagraph_dynamic_shape_warn_limit": 1}),
        torch.no_grad(),
    ):
        compiled, launches = torch.compile(model.cuda(), mode="reduce-overhead", dynamic=True), []
        for rows in (8, 8, 8, 16, 16, 16, 8):
            before = len(machine.recorder.trace)
            compiled(torch.empty(rows, 64, device="cuda"))
            launches.append(_launches(list(machine.recorder.trace)[before:]))
    assert launches == [3, 3, 1, 3, 3, 1, 1]
    assert "We have observed 2 distinct sizes" in caplog.text


def test_a_graph_that_takes_too_long_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering = importlib.import_module("gpututor.devices.virtual.compiler.lowering")
    monkeypatch.setattr(lowering, "DEADLINE_S", 0.0)
    with virtual_gpu():
        x = torch.ones(4, device="cuda")
        with pytest.warns(UserWarning, match="runs with eager kernels on the virtual GPU.* of processor time"):
            assert torch.compile(lambda x: x * 2 + 1)(x).tolist() == [3.0] * 4


def test_nothing_of_the_compiler_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "with virtual_gpu():\n    print((torch.ones(2, device='cuda') + 1).tolist())\n"
        "print('torch._inductor' in sys.modules, 'torch._dynamo.convert_frame' in sys.modules)\n"
    )
    assert printed("-c", program) == "[2.0, 2.0]\nFalse False\n"

"""`torch.compile` and `torch.export` on a virtual GPU: code runs eagerly, with a warning for each machine."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import printed

GPU = torch.device("cuda:0")
SAID = "torch.compile runs eagerly on the virtual GPU"


def test_compile_warns_once_for_each_machine() -> None:
    for _ in range(2):
        with virtual_gpu(1), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                torch.compile(lambda x: x + 1)(torch.ones(1, device="cuda"))
        assert [str(message.message) for message in said if SAID in str(message.message)] == [SAID + "."]


@pytest.mark.filterwarnings(f"ignore:{SAID}")
def test_functions_decorators_and_options_are_accepted(two_gpus: VirtualMachine) -> None:
    @torch.compile
    def bare(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @torch.compile(mode="max-autotune", fullgraph=True, dynamic=True)
    def with_options(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(2, device="cuda", requires_grad=True)
    for function in (bare, with_options, torch.compile(lambda x: x + 1, backend="eager")):
        out = function(x)
        assert (out.device, out.tolist()) == (GPU, [2.0, 2.0])
        out.sum().backward()
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        torch.compile(bare, mode="default", options={"trace": True})
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        torch.compile(bare, speed=3)  # type: ignore[call-overload]


@pytest.mark.filterwarnings(f"ignore:{SAID}")
def test_a_compiled_module_is_wrapped_as_torch_wraps_it(two_gpus: VirtualMachine) -> None:
    model = nn.Linear(2, 2).cuda()
    compiled: Any = torch.compile(model)
    assert compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    x = torch.ones(1, 2, device="cuda")
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model.weight.grad is not None
    assert compiled.to("cuda:1")(x.to("cuda:1")).device == torch.device("cuda:1")
    in_place = nn.Linear(2, 2).cuda()
    in_place.compile()
    assert in_place(x).device == GPU


@pytest.mark.filterwarnings(f"ignore:{SAID}")
def test_each_call_of_a_compiled_function_is_a_range(recorder: Recorder) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x + x

    model = nn.Linear(2, 2).cuda()
    for made in (torch.compile(model), torch.compile(double), torch.compile(double, disable=True)):
        made(torch.ones(1, 2, device="cuda"))
    model(double(torch.ones(1, 2, device="cuda")))
    model.compile()
    model(torch.ones(1, 2, device="cuda"))
    ranges = [event for event in recorder.trace if event.kind is Kind.RANGE]
    assert [entry.name for entry in ranges] == ["Torch-Compiled Region"] * 3
    work = [
        entry for entry in recorder.trace if entry.kind is Kind.KERNEL and entry.name in ("aten::addmm", "aten::add")
    ]
    inside = [any(part.launched < item.launched <= part.end for part in ranges) for item in work]
    assert inside == [True, True, False, False, False, True]


def test_compiler_helpers_return_their_defaults(two_gpus: VirtualMachine) -> None:
    assert not torch.compiler.is_compiling()
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()
    twice: Any = torch.compiler.disable(lambda x: x * 2)
    assert twice(torch.ones(1, device="cuda")).tolist() == [2.0]
    traced = torch.fx.symbolic_trace(nn.Linear(2, 2).cuda())
    assert traced(torch.ones(1, 2, device="cuda")).device == GPU


def test_a_program_exported_on_the_cpu_runs_on_the_device(
    two_gpus: VirtualMachine,
) -> None:
    """Fake tensors of the export compute nothing, so the trace shows no CPU work."""
    model, rows = nn.Linear(2, 3), torch.export.Dim("rows")
    program = torch.export.export(model, (torch.ones(4, 2),), dynamic_shapes=({0: rows},))
    module = program.module().to("cuda")
    out = module(torch.ones(7, 2, device="cuda"))
    assert (out.device, tuple(out.shape)) == (GPU, (7, 3))
    torch.testing.assert_close(out.cpu(), model.cpu()(torch.ones(7, 2)))


def test_compile_works_normally_after_the_virtual_gpu() -> None:
    program = (
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "with virtual_gpu(1):\n"
        "    torch.compile(torch.nn.Linear(2, 2).cuda())(torch.ones(1, 2, device='cuda'))\n"
        "    torch._dynamo.reset()\n"
        "counted = []\n"
        "def backend(graph, inputs):\n    counted.append(graph)\n    return graph\n"
        "out = torch.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(2))\n"
        "print(len(counted), out.shape)\n"
    )
    assert printed("-W", "ignore", "-c", program) == "1 torch.Size([2])\n"


@pytest.mark.long
def test_dynamo_optimize_still_computes() -> None:
    """A new process, because torch._dynamo lists torch's functions only once."""
    program = (
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "with virtual_gpu():\n    import torch._dynamo\n"
        "    print(torch._dynamo.optimize()(lambda x: x + 1)(torch.ones(2, device='cuda')))\n"
    )
    assert printed("-c", program) == "tensor([2., 2.], device='cuda:0')\n"

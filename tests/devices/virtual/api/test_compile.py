"""Entry points of the compiler on a virtual GPU: options, modules, `torch.export`; see `compiler` for the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine
from tests.support.virtual_gpus import printed

GPU = torch.device("cuda:0")


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


def test_compiler_helpers_return_their_defaults(two_gpus: VirtualMachine) -> None:
    assert not torch.compiler.is_compiling()
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()
    twice: Any = torch.compiler.disable(lambda x: x * 2)
    assert twice(torch.ones(1, device="cuda")).tolist() == [2.0]
    traced = torch.fx.symbolic_trace(nn.Linear(2, 2).cuda())
    assert traced(torch.ones(1, 2, device="cuda")).device == GPU


def test_a_program_exported_on_the_cpu_runs_on_the_device(two_gpus: VirtualMachine) -> None:
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

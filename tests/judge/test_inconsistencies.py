"""Figures that cannot be true together are suspected, and so is tampering; real runs never are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, MemoryUse, Run, Span
from gpututor.grading.report import Outcome
from gpututor.hardware.scenario import Scenario
from gpututor.judge.devices import to_machine
from gpututor.judge.inconsistencies import find_inconsistencies
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import ObservedTensor, TensorFact
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.worker.machine import CallMeasurement, enter_machine
from gpututor.worker.submission import call as call_learners
from gpututor.worker.submission import load
from tests.support.gradings import Grade
from tests.support.parameters import mostly_long

SPEC = MachineSpec(Scenario("two GPUs", 2, ("cuda",), "T4"), "virtual", 0)
SOURCE = "import torch\n\n\ndef work():\n    return 1\n"
SPAN = Span(1000, 5_000_000, 9_000_000)
FACT = TensorFact("Tensor", (256,), "float32", "cuda:0", (1,), 0, 1, 1, False, True, False, "strided")
RESULT = ObservedTensor(FACT, torch.zeros(256), None)


def _honest_trace(**changed: Any) -> Trace:
    """A tensor is made on the GPU, used, and copied back; `changed`: other fields of the event called `name`."""
    trace = Trace()
    events: tuple[tuple[Kind, str, dict[str, Any]], ...] = (
        (Kind.ALLOCATE, "allocate", {"size_bytes": 1024, "allocated": 3072}),
        (Kind.KERNEL, "kernel", {"launched": 2000, "start": 3000, "end": 9000, "flops": 1000.0, "line": 5}),
        (Kind.KERNEL, "second", {"launched": 3000, "start": 9000, "end": 9500, "line": 5}),
        (
            Kind.TRANSFER,
            "copy",
            {"source": "cuda:0", "target": "cpu", "size_bytes": 1024, "launched": 9600, "start": 9700, "end": 39000},
        ),
        (Kind.SYNCHRONISE, "wait", {"launched": 9600, "start": 9700, "end": 39000}),
        (Kind.ALLOCATE, "more", {"size_bytes": 512, "allocated": 3584}),
        (Kind.FREE, "free", {"size_bytes": 512, "allocated": 3072}),
    )
    for kind, name, fields in events:
        other = changed.get(name, {})
        if other is not None:
            trace.add(kind, name, **{"device": "cuda:0", "file": "work.py", **fields, **other})
    return trace


def _run(trace: Trace, **changed: Any) -> Run:
    memory = {"cuda:0": MemoryUse(2048, 3584, 3072)}
    call = replace(Call({}, {}, RESULT, trace, span=SPAN, memory=memory), **changed)
    return Run(to_machine(SPEC, []), (call,), SOURCE, "work", ((call,),))


def test_only_impossible_memory_clocks_and_replacements_are_suspected() -> None:
    assert find_inconsistencies(_run(_honest_trace()), SPEC) == ()
    memory = {"cuda:0": MemoryUse(0, 0, 0)}
    (suspicion,) = find_inconsistencies(_run(Trace(), memory=memory), SPEC)
    assert suspicion.startswith("call 1: ")
    assert "cuda:0" in suspicion
    run = _run(_honest_trace())
    early = replace(run.calls[0], span=Span(0, 1, 9_000_000))
    (suspicion,) = find_inconsistencies(replace(run, repeated=((run.calls[0], early),)), SPEC)
    assert "a call began before" in suspicion
    real = replace(SPEC, kind="cuda")
    (suspicion,) = find_inconsistencies(_run(Trace()), real, ["torch.Tensor.cpu"])
    assert suspicion.startswith("torch.Tensor.cpu was replaced")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kernel": {"device": "cuda:2"}}, "device that the machine"),
        ({"kernel": {"line": 7}}, "line that the file"),
        ({"allocate": {"size_bytes": 512}}, "memory of cuda:0 changed"),
        ({"more": None}, "memory of cuda:0 changed"),
        ({"free": None}, "memory of cuda:0 does not match"),
        ({"kernel": {"start": 1500}}, "before it was launched"),
        ({"copy": {"end": 9_000_001}}, "ended after the call"),
        ({"second": {"start": 8999}}, "two operations at once"),
        ({"kernel": {"flops": 1e12}}, "a kernel was faster"),
        ({"copy": {"size_bytes": 10**7}}, "a copy was faster"),
        ({"wait": None}, "did not wait for"),
        ({"wait": {"end": 9699}}, "runs backwards"),
        ({"wait": {"start": 999}}, "runs backwards"),
        ({"wait": {"end": 9_000_001}}, "runs backwards"),
    ],
)
def test_figures_that_do_not_fit_each_other_are_told(changed: dict[str, Any], words: str) -> None:
    [suspicion] = find_inconsistencies(_run(_honest_trace(**changed)), SPEC)
    assert suspicion.startswith("call 1: ")
    assert words in suspicion


def suspicions_of(work: dict[str, Any] | None, result: torch.Tensor | None = None, **changed: Any) -> tuple[str, ...]:
    """Return the suspicions of a call that launches `work`, and takes memory for `result`."""
    trace = Trace()
    if work is not None:
        row = {"launched": 2000, "start": 3000, "end": 9000, "size_bytes": 1024}
        trace.add(Kind.KERNEL, **{"name": "aten::mm", "device": "cuda:0", **row, **work})
    trace.add(Kind.ALLOCATE, "allocate", device="cuda:0", size_bytes=1024, allocated=3072)
    memory = {"cuda:0": MemoryUse(2048, 3072, 3072)}
    output = ObservedTensor(FACT, torch.ones(256) if result is None else result, None)
    call = replace(Call({}, {}, output, trace, span=SPAN, memory=memory), **changed)
    return find_inconsistencies(Run(to_machine(SPEC, []), (call,), "", "work", ((call,),)), SPEC)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({}, ""),
        ({"launched": 999}, "before the call"),
        ({"size_bytes": 10**8}, "a kernel was faster"),
        ({"end": 3001}, "a kernel was faster"),
        (None, "no kernel and no copy"),
        ({"size_bytes": 8}, "no kernel and no copy"),
        ({"name": ""}, "that no operator launched"),
        ({"name": "aten::matmul_for_nothing"}, "that no operator launched"),
    ],
)
def test_work_that_cannot_have_been_is_told(work: dict[str, Any] | None, words: str) -> None:
    suspicions = suspicions_of(work)
    assert len(suspicions) == bool(words)
    assert all(words in each for each in suspicions)


def test_results_need_memory_and_work_of_their_own() -> None:
    assert suspicions_of(None, torch.zeros(256)) == ()
    assert suspicions_of({}, memory={})
    given: dict[str, Any] = {"arguments": {"table": FACT}, "after": Encoder().digests({"table": torch.ones(256)})}
    assert suspicions_of({}, **given) == ()
    assert suspicions_of({}, torch.zeros(256), **given)
    other = TensorFact("Tensor", (600,), "float32", "cuda:0", (1,), 0, 2, 2, False, True, False, "strided")
    assert suspicions_of({}, arguments={"table": other})


PROGRAMS: dict[str, str] = {
    "copies": "x = torch.ones(1000).pin_memory()\n    y = x.to('cuda', non_blocking=True)\n"
    "    z = torch.ones(3).cuda()\n"
    "    y.cpu(), z.tolist(), z[0].item()\n    print(z)\n    return y.to('cuda:1')",
    "two streams": "side = torch.cuda.Stream()\n    a = torch.ones(512, 512, device='cuda')\n"
    "    with torch.cuda.stream(side):\n        b = a @ a\n    c = a @ a\n    torch.cuda.synchronize()\n"
    "    return b + c",
    "training": "net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()\n"
    "    best = torch.optim.Adam(net.parameters())\n    for _ in range(3):\n        best.zero_grad()\n"
    "        net(torch.randn(32, 64, device='cuda')).pow(2).mean().backward()\n        best.step()\n    return net",
    "half precision": "a = torch.ones(256, 256, device='cuda')\n"
    "    with torch.autocast('cuda', dtype=torch.float16):\n        b = a @ a\n    return b, b.to(torch.float64)",
    "a graph": "x = torch.ones(300, device='cuda')\n    graph = torch.cuda.CUDAGraph()\n"
    "    with torch.cuda.graph(graph):\n        y = x * 2\n        z = y + 1\n    for _ in range(3):\n"
    "        graph.replay()\n"
    "    return z",
    "views and strides": "x = torch.ones(64, 64, device='cuda')\n"
    "    return x.t(), x[::2], x[0].expand(9, 64), torch.empty(0, device='cuda'), x.detach()",
    "memory that comes and goes": "x = [torch.ones(100000 * n, device='cuda') for n in range(1, 9)]\n    del x[::2]\n"
    "    torch.cuda.empty_cache()\n    y = torch.ones(5, device='cuda')\n    return x[0], y",
    "out of memory": "try:\n        torch.empty(1 << 50, dtype=torch.uint8, device='cuda')\n"
    "    except torch.OutOfMemoryError:\n        pass\n    return torch.ones(3, device='cuda')",
    "counts that wait": "x = torch.arange(100, device='cuda')\n"
    "    return x[x > 3].nonzero(), torch.unique(x), bool(x.any())",
    "threads": "import threading\n    found = []\n"
    "    def one():\n        for _ in range(50):\n"
    "            found.append(torch.ones(1000, device='cuda').sum().item())\n"
    "    many = [threading.Thread(target=one) for _ in range(4)]\n    [each.start() for each in many]\n"
    "    [each.join() for each in many]\n    return torch.ones(1, device='cuda')",
    "two GPUs": "a = torch.ones(1000, device='cuda:0')\n    b = a.to('cuda:1', non_blocking=True) * 2\n"
    "    torch.cuda.set_device(1)\n    c = torch.ones(5, device='cuda')\n    torch.cuda.set_device(0)\n"
    "    return a, b, c",
    "large products and convolutions": "a = torch.ones(4096, 512, device='cuda', dtype=torch.float16)\n"
    "    torch.nn.functional.conv2d(torch.ones(2, 8, 32, 32, device='cuda'), torch.ones(8, 8, 3, 3, device='cuda'))\n"
    "    return (a.t() @ a).sum()",
    "compiled code": "double = torch.compile(lambda x: torch.relu(x * 2))\n"
    "    return double(torch.ones(1000, device='cuda'))",
    "in place and copies within": "x = torch.zeros(1000, device='cuda')\n    y = x.clone()\n    y.copy_(x)\n"
    "    x.add_(1)\n"
    "    return torch.cat([x, y]), x.contiguous()",
}


@pytest.mark.parametrize("name", mostly_long(PROGRAMS, ["training", "two streams", "compiled code"]))
def test_real_runs_are_not_suspected(tmp_path: Path, name: str) -> None:
    path = tmp_path / "work.py"
    path.write_text(f"import torch\n\n\ndef work():\n    {PROGRAMS[name]}\n")
    calls: list[Call] = []
    with enter_machine(SPEC, str(path)) as machine:
        machine.recorder.enabled = False
        function: Callable[..., Any] = load(path, "work")
        for _ in range(3):
            before = len(machine.recorder.complete())
            around = CallMeasurement(machine.meter)
            around.begin()
            machine.recorder.enabled = True
            output, _line = call_learners(function, {}, path)
            around.returned(output)
            machine.recorder.enabled = False
            packer = Encoder(machine.view)
            node = packer.pack(output)
            value = Decoder(tuple(packer.buffers)).unpack(node)
            del output
            measured: dict[str, Any] = around.memory(left=True)
            memory = {device: MemoryUse(**use) for device, use in measured.items()}
            trace = machine.recorder.complete().since(before)
            calls.append(Call({}, {}, value, trace, span=Span(**around.span), memory=memory))
    run = Run(to_machine(SPEC, []), tuple(calls), path.read_text(), "work", (tuple(calls),))
    assert len(calls[0].trace) > 0
    assert find_inconsistencies(run, SPEC) == ()


HEAD = "import gc, sys, time, torch\n\nKEPT = []\n\n\n"
DOUBLES = "    return 2 * number\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    torch.Tensor.cpu = lambda tensor: tensor\n", "torch.Tensor.cpu was replaced"),
        ("    torch.cuda.synchronize = lambda *_: None\n", "torch.cuda.synchronize was replaced"),
        ("    time.perf_counter = lambda: 0.0\n", "time.perf_counter was replaced"),
        ("    torch.allclose = lambda *_, **__: True\n", "torch.allclose was replaced"),
        (
            "    for one in gc.get_objects():\n        if type(one).__name__ == 'Recorder':\n"
            "            one.enabled = False\n",
            "recorder.enabled was replaced",
        ),
        (
            "    for name, module in list(sys.modules.items()):\n        if name.endswith('devices.recorder'):\n"
            "            module.Recorder.kernel.__code__ = (lambda *_, **__: -1).__code__\n",
            "devices.recorder.Recorder.kernel was replaced",
        ),
        (
            "    [one] = [one for one in gc.get_objects() if type(one).__name__ == 'Recorder' and one.enabled]\n"
            "    one.enabled = False\n    KEPT.append(torch.ones(1000, device='cuda'))\n    one.enabled = True\n",
            "memory of cuda:0",
        ),
    ],
)
def test_a_right_answer_beside_something_replaced_needs_review(grade: Grade, body: str, words: str) -> None:
    report = grade(f"{HEAD}def twice(number):\n{body}{DOUBLES}")

    assert report.outcome is Outcome.NEEDS_REVIEW
    assert [suspicion for suspicion in report.suspicions if words in suspicion]
    assert not report.final


def test_a_wrong_answer_beside_something_replaced_fails(grade: Grade) -> None:
    report = grade(f"{HEAD}torch.Tensor.cpu = None\n\n\ndef twice(number):\n    return 0\n")

    assert report.outcome is Outcome.FAILED
    assert report.suspicions

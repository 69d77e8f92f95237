"""Detection of replaced code in a worker, and of code that runs between two calls, without false alarms."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import gc
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import operator_registry
from gpututor.devices.virtual.tensors.tensor import Hooks
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.columns import Trace
from gpututor.worker.guard import MODULE_NAME, CallGuard, TamperGuard, _patched_names, code_of_machine
from gpututor.worker.integrity import Snapshot, snapshot_machine
from gpututor.worker.machine import EnteredMachine, enter_machine
from gpututor.worker.submission import call, load
from tests.support.parameters import mostly_long
from tests.support.threads import started
from tests.support.virtual_gpus import printed

SPEC = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
LIMIT = 1000


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[EnteredMachine]:
    with enter_machine(SPEC, str(tmp_path / "solution.py")) as machine:
        machine.recorder.trace.limit = LIMIT
        yield machine


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Undo its changes before the machine exits."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def _nothing(*arguments: Any, **named: Any) -> int:
    return -1


@contextlib.contextmanager
def _replaced_code(function: FunctionType) -> Iterator[None]:
    code = function.__code__
    function.__code__ = _nothing.__code__
    try:
        yield
    finally:
        function.__code__ = code


def test_an_unchanged_worker_has_no_changes(machine: EnteredMachine) -> None:
    guard = TamperGuard(machine)
    (torch.ones(3, device="cuda") @ torch.ones(3, device="cuda")).cpu()
    guard.check_recorder(LIMIT)
    assert guard.changed() == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("torch.Tensor", "cpu"),
        ("torch.Tensor", "is_cuda"),
        ("torch.Tensor", "__eq__"),
        ("torch", "allclose"),
        ("torch", "zeros"),
        ("torch.cuda", "synchronize"),
        ("torch.cuda", "Event"),
        ("torch.cuda.Event", "elapsed_time"),
        ("time", "perf_counter"),
        ("sys", "settrace"),
        ("builtins", "isinstance"),
        ("gpututor.devices.recorder.Recorder", "transfer"),
        ("gpututor.trace.columns.Trace", "add"),
        ("gpututor.protocol.encode.Encoder", "pack"),
        ("gpututor.devices.virtual.execution.copies", "copy_to_host"),
        ("gpututor.worker.guard.TamperGuard", "changed"),
    ],
)
def test_a_replaced_attribute_is_reported(machine: EnteredMachine, owner: str, name: str) -> None:
    guard = TamperGuard(machine)
    changed = guard.changed
    holder: Any = resolve_name(owner)
    inherited = name not in vars(holder)
    before = getattr(holder, name)
    setattr(holder, name, _nothing)
    try:
        reported = changed()
    finally:
        if inherited:
            delattr(holder, name)
        else:
            setattr(holder, name, before)
    assert [words for words in reported if words.endswith(f"{owner.rpartition('.')[2]}.{name}")]
    assert guard.changed(), "a restored attribute stays reported"


def test_a_replaced_function_body_is_reported(machine: EnteredMachine) -> None:
    guard = TamperGuard(machine)
    function: Any = Recorder.synchronize
    with _replaced_code(function):
        assert guard.changed() == ["gpututor.devices.recorder.Recorder.synchronize"]


def test_assigned_defaults_are_reported_also_in_a_later_machine(tmp_path: Path) -> None:
    function: Any = Recorder.synchronize
    before = function.__defaults__
    code_of_machine(virtual=True)
    try:
        with enter_machine(SPEC, str(tmp_path / "solution.py")) as machine:
            function.__defaults__ = (None,)
            assert TamperGuard(machine).changed() == ["gpututor.devices.recorder.Recorder.synchronize"]
    finally:
        function.__defaults__ = before


def test_machines_without_cuda_have_a_snapshot_of_their_own(tmp_path: Path) -> None:
    for backends in (("cuda",), ("mps",), ("cuda",)):
        spec = MachineSpec(Scenario("one GPU", 1, backends, "T4"), "virtual", 0)
        with enter_machine(spec, str(tmp_path / "solution.py")) as machine:
            assert TamperGuard(machine).changed() == []


def test_properties_static_methods_and_wrapped_functions_are_covered() -> None:
    def inner() -> int:
        return 1

    @functools.wraps(inner)
    def outer() -> int:
        return inner()

    class Thing:
        part = property(lambda self: 1)
        still = staticmethod(lambda: 1)

    module = types.ModuleType("module")
    Thing.__module__ = "module"
    vars(module).update(Thing=Thing, outer=outer)
    functions: list[Any] = [vars(Thing)["part"].fget, vars(Thing)["still"].__func__, inner]
    for function in functions:
        snapshot = Snapshot()
        snapshot.add_module(module)
        assert snapshot.changed() == []
        with _replaced_code(function):
            assert len(snapshot.changed()) == 1
    snapshot = Snapshot()
    snapshot.add_module(module)
    wrapper: Any = outer
    wrapper.__closure__[0].cell_contents = _nothing
    assert snapshot.changed() == ["module.outer"]


def test_a_renewed_snapshot_watches_the_same_names(machine: EnteredMachine) -> None:
    def watched(snapshot: Snapshot) -> list[str]:
        spaces = snapshot._fixed.all + snapshot._tables.all
        return sorted(space.words(name) for space in spaces for name in (*space.names, *space.absent_names))

    code_of_machine.cache_clear()  # other tests import more modules, such as the compiler's
    renewed = code_of_machine(virtual=True).renewed()
    copyreg._slotnames(torch.Tensor)  # type: ignore[attr-defined]  # as pickle does
    new = snapshot_machine(_patched_names())
    assert watched(renewed) == watched(new)
    assert renewed.changed() == new.changed() == []


def test_keyword_defaults_and_removed_new_and_equal_names_are_reported() -> None:
    class EqualToAll:
        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    def with_keyword(*, size: int = 1) -> int:
        return size

    module = types.ModuleType("module")
    vars(module).update(first=_nothing, keyword=with_keyword, last=_nothing)
    snapshot = Snapshot()
    snapshot.add(module, ["first", "keyword", "last", "absent"])
    assert snapshot.changed() == []
    for name, value in (("first", EqualToAll()), ("absent", _nothing)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, value, raising=False)
            assert snapshot.changed() == [f"module.{name}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(module, "last")
        assert snapshot.changed() == ["module.last"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(with_keyword.__kwdefaults__ or {}, "size", 2)
        assert len(snapshot.changed()) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(with_keyword, "__kwdefaults__", {"size": 2})
        assert snapshot.changed() == ["module.keyword"]
    assert snapshot.changed() == []


def test_a_renewed_snapshot_keeps_the_original_code() -> None:
    module = types.ModuleType("module")
    functions: list[Any] = [FunctionType(_nothing.__code__, {}), FunctionType(_nothing.__code__, {})]
    vars(module).update(first=functions[0], TABLE={"a": functions[1]})
    snapshot = Snapshot()
    snapshot.add_module(module)
    snapshot.add_tables(module)
    vars(module).update(first=print)
    vars(module)["TABLE"]["b"] = 1
    assert snapshot.changed() == ["module.first"]
    renewed = snapshot.renewed()
    assert renewed.changed() == []
    vars(module)["TABLE"]["b"] = 2
    functions[1].__code__ = (lambda: 1).__code__
    assert renewed.changed() == ["module.TABLE[b]", "module.TABLE[a]"]


class _KeyHashedByPython:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@pytest.mark.parametrize("key", [str, _KeyHashedByPython])
def test_replaced_and_removed_entries_of_tables_are_reported(key: Callable[[str], Any]) -> None:
    first, last = key("first"), key("last")
    table: dict[Any, Any] = {first: _nothing, last: _nothing}
    module = types.ModuleType("module")
    vars(module).update(TABLE=table)
    snapshot = Snapshot()
    snapshot.add_tables(module)
    assert snapshot.changed() == []
    for changed in (first, last):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(table, changed, print)
            assert snapshot.changed() == [f"module.TABLE[{changed}]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(table, last)
        assert snapshot.changed() == ["module.TABLE[last]"]
    table[key("new")] = print
    assert snapshot.changed() == []
    renewed = snapshot.renewed()
    assert renewed.changed() == []
    del table[first]
    assert renewed.changed() == snapshot.changed() == ["module.TABLE[first]"]


@pytest.mark.parametrize("kind", mostly_long(["cpu", "virtual"], ["virtual"]))
def test_a_warm_worker_reports_no_changes(kind: str) -> None:
    code = (
        "import gpututor.worker.__main__ as worker; worker.warm_up()\n"
        "from gpututor.hardware.scenario import Scenario\n"
        "from gpututor.protocol.messages import MachineSpec\n"
        "from gpututor.worker.machine import enter_machine\n"
        "from gpututor.worker.guard import TamperGuard\n"
        f"spec = MachineSpec(Scenario('', int({kind!r} == 'virtual'), (), 'T4'), {kind!r}, 0)\n"
        "for _ in range(2):\n"
        "    with enter_machine(spec, 'solution.py') as machine:\n"
        "        print(TamperGuard(machine).changed())\n"
    )
    assert printed("-c", code).split() == ["[]", "[]"]


def test_changed_defaults_tables_and_hooks_are_reported(machine: EnteredMachine, patch: pytest.MonkeyPatch) -> None:
    guard = TamperGuard(machine)
    patch.setattr(Trace.add, "__kwdefaults__", {**(Trace.add.__kwdefaults__ or {}), "size_bytes": 1})
    assert guard.changed() == ["gpututor.trace.columns.Trace.add"]
    patch.setitem(operator_registry.RULES, next(iter(operator_registry.RULES)), _nothing)
    patch.setattr(Hooks, "run", _nothing)
    assert [words for words in guard.changed() if "RULES" in words]
    assert [words for words in guard.changed() if words.endswith("Hooks.run")]


def test_a_disabled_recorder_a_replaced_trace_and_a_shadowed_method_are_reported(
    machine: EnteredMachine, patch: pytest.MonkeyPatch
) -> None:
    guard = TamperGuard(machine)
    machine.recorder.enabled = False
    patch.setattr(machine.recorder, "trace", Trace(3))
    patch.setattr(machine.recorder, "kernel", _nothing, raising=False)
    guard.check_recorder(LIMIT)
    assert guard.changed() == ["recorder.enabled", "recorder.trace", "recorder.kernel"]


def test_a_changed_gpu_spec_is_reported(machine: EnteredMachine, patch: pytest.MonkeyPatch) -> None:
    assert machine.virtual is not None
    guard = TamperGuard(machine)
    gpu = machine.virtual.gpus[0]
    with pytest.raises(AttributeError):
        object.__setattr__(gpu.spec, "launch_s", 0.0)
    with patch.context() as inner:
        inner.setattr(type(gpu.spec), "launch_s", 0.0)
        assert guard.changed() == ["the figures of cuda:0.launch_s"]
    guard = TamperGuard(machine)
    patch.setattr(gpu, "spec", gpu.spec._replace(launch_s=0.0))
    assert guard.changed() == ["cuda:0.spec"]


HONEST = {
    "defaults": "torch.set_default_device('cuda')\ntorch.set_default_dtype(torch.float64)\n{}torch.ones(3).sum()",
    "autocast": "{}a = torch.ones(8, 8, device='cuda')\n"
    "    with torch.autocast('cuda', dtype=torch.float16):\n        a @ a",
    "data loader": "from torch.utils.data import DataLoader, TensorDataset\n"
    "{}for (x,) in DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4, pin_memory=True):\n"
    "        x.to('cuda', non_blocking=True)",
    "functional transforms": "{}x = torch.ones(3, device='cuda')\n    torch.func.vmap(torch.sin)(x)\n"
    "    torch.func.grad(lambda y: (y * y).sum())(x)",
    "benchmark": "import torch.utils.benchmark as benchmark\n{}a = torch.ones(8, 8, device='cuda')\n"
    "    benchmark.Timer('a @ a', globals={{'a': a}}).timeit(3)",
    "profiler": "{}from torch.profiler import profile\n    with profile() as profiler:\n"
    "        torch.ones(3, device='cuda').sum()\n    profiler.key_averages().table()",
    "hooks": "{}layer = torch.nn.Linear(2, 2).cuda()\n    layer.register_forward_hook(lambda *_: None)\n"
    "    layer(torch.ones(1, 2, device='cuda')).sum().backward()",
    "own modules, functions and optimisers": "class Net(torch.nn.Module):\n"
    "    def forward(self, x):\n        return Twice.apply(x) * self.w\n"
    "    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(2))\n"
    "class Twice(torch.autograd.Function):\n"
    "    @staticmethod\n    def forward(ctx, x):\n        return 2 * x\n"
    "    @staticmethod\n    def backward(ctx, g):\n        return 2 * g\n"
    "{}net = Net().cuda()\n    optimiser = torch.optim.Adam(net.parameters())\n"
    "    net(torch.ones(2, device='cuda', requires_grad=True)).sum().backward()\n    optimiser.step()\n"
    "    torch.optim.lr_scheduler.StepLR(optimiser, 1).step()",
    "graphs": "{}x = torch.ones(3, device='cuda')\n    graph = torch.cuda.CUDAGraph()\n"
    "    with torch.cuda.graph(graph):\n        y = x * 2\n    graph.replay()",
    "streams and events": "{}side = torch.cuda.Stream()\n    event = torch.cuda.Event(enable_timing=True)\n"
    "    with torch.cuda.stream(side):\n        torch.ones(3, device='cuda').mul_(2)\n        event.record()\n"
    "    event.synchronize()\n    torch.cuda.synchronize()",
    "switches": "torch.backends.cuda.matmul.allow_tf32 = True\n"
    "torch.set_float32_matmul_precision('high')\n{}torch.manual_seed(3)\n    torch.use_deterministic_algorithms(True)\n"
    "    torch.use_deterministic_algorithms(False)\n    torch.backends.cuda.matmul.allow_tf32 = False\n"
    "    torch.set_float32_matmul_precision('highest')",
    "an added method": "import functools\n"
    "torch.Tensor.twice = lambda self: 2 * self\n{}torch.ones(3).twice()\n    del torch.Tensor.twice",
    "compile": "{}torch.compile(lambda x: x + 1)(torch.ones(3, device='cuda'))",
    "script and tracing": "{}torch.fx.symbolic_trace(torch.nn.Linear(2, 2))\n"
    "    torch.jit.script(torch.nn.Linear(2, 2))",
    "a replaced print": "import builtins\n{}shown = builtins.print\n    builtins.print = lambda *_: None\n"
    "    builtins.print('quiet')\n    builtins.print = shown",
    "threads": "import threading\n{}thread = threading.Thread(target=lambda: torch.ones(3, device='cuda').sum())\n"
    "    thread.start()\n    thread.join()",
    "one process of a group": "import torch.distributed as dist, tempfile\n"
    "{}dist.init_process_group('gloo', init_method='file://' + tempfile.mktemp(), rank=0, world_size=1)\n"
    "    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())\n"
    "    model(torch.ones(1, 2, device='cuda')).sum().backward()\n    dist.destroy_process_group()",
    "checkpoints and scalers": "from torch.utils.checkpoint import checkpoint\n"
    "{}x = torch.ones(3, device='cuda', requires_grad=True)\n"
    "    checkpoint(torch.sin, x, use_reentrant=False).sum().backward()\n"
    "    torch.amp.GradScaler('cuda').scale(x.sum())",
    "measuring": "import time, timeit, gc, sys\n{}timeit.timeit('1 + 1', number=3)\n    time.perf_counter()\n"
    "    gc.disable()\n    gc.enable()\n    time.sleep(0.001)\n    sys.setrecursionlimit(sys.getrecursionlimit())",
}
"""Submissions; `{}` marks the start of the function."""


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_is_not_reported(machine: EnteredMachine, tmp_path: Path, name: str) -> None:
    guard = TamperGuard(machine)
    path = tmp_path / "solution.py"
    path.write_text("import torch\n" + HONEST[name].format("def work():\n    "))
    call(load(path, "work"), {}, path)
    torch.set_default_dtype(torch.float32)
    guard.check_recorder(LIMIT)
    assert guard.changed() == []


def test_learners_may_change_how_tensors_print(machine: EnteredMachine, patch: pytest.MonkeyPatch) -> None:
    guard = TamperGuard(machine)
    for name in ("__repr__", "__str__", "__format__"):
        patch.setattr(torch.Tensor, name, lambda self, *_: f"of shape {tuple(self.shape)}")
    assert guard.changed() == []


def _hook(*_: Any) -> None:
    return None


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[CallGuard]:
    with enter_machine(SPEC, str(tmp_path / "solution.py")) as machine:
        machine.recorder.enabled = False
        yield CallGuard(machine.recorder, tmp_path / "solution.py")
    gc.enable()


@pytest.mark.parametrize(
    ("leave", "name"),
    [
        (lambda: sys.setprofile(_hook), "sys.setprofile"),
        (lambda: sys.settrace(_hook), "sys.settrace"),
        (lambda: threading.setprofile(_hook), "threading.setprofile"),
        (lambda: threading.settrace(_hook), "threading.settrace"),
        (lambda: gc.callbacks.append(_hook), "gc.callbacks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hooks_left_behind_are_removed_and_named(guard: CallGuard, leave: Any, name: str) -> None:
    kept = sys.gettrace(), threading.gettrace()  # coverage may be measured
    try:
        leave()
        guard.suspend()
        assert sys.getprofile() is None
        assert sys.gettrace() is None
        assert _hook not in (*gc.callbacks, threading.getprofile(), threading.gettrace())
    finally:
        sys.settrace(kept[0])
        if kept[1] is not None:
            threading.settrace(kept[1])
    assert name in guard.hooks


def test_timers_and_signal_handlers_are_active_only_during_calls(guard: CallGuard) -> None:
    before = signal.getsignal(signal.SIGALRM)
    guard.resume()
    signal.signal(signal.SIGALRM, _hook)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    guard.suspend()
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0, 0))
    assert {"signal.signal", "signal.setitimer"} <= guard.hooks.keys()
    guard.resume()
    assert signal.getsignal(signal.SIGALRM) is _hook
    guard.suspend()
    assert signal.getsignal(signal.SIGALRM) == before


def test_garbage_collection_pauses_between_calls(guard: CallGuard) -> None:
    guard.resume()
    assert gc.isenabled()
    guard.suspend()
    assert not gc.isenabled()
    guard.resume()
    gc.disable()
    guard.suspend()
    guard.resume()
    assert not gc.isenabled()


def test_device_work_between_calls_is_noticed(
    guard: CallGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "solution.py"
    path.write_text("import torch\n\n\ndef work():\n    torch.ones(3, device='cuda').mul_(2)\n")
    monkeypatch.setitem(sys.modules, MODULE_NAME, ModuleType(MODULE_NAME))
    work = load(path, "work")
    work()
    assert not guard.lines
    guard.suspend()
    torch.ones(3, device="cuda").mul_(2)  # as an exercise's own code makes what is given
    assert not guard.lines
    work()
    assert [*guard.lines] == [5]
    exec("torch.ones(3, device='cuda').mul_(2)", sys.modules[MODULE_NAME].__dict__)
    assert [*guard.lines] == [5, 0]
    guard.resume()
    call(work, {}, path, guard)
    assert [*guard.lines] == [5, 0]


def test_device_work_of_another_thread_is_noticed(guard: CallGuard) -> None:
    table = torch.ones(3)
    guard.suspend()
    started(table.to, "cuda").join()
    assert [*guard.lines] == [0]


def test_a_replaced_stdout_is_flushed_during_the_call(
    guard: CallGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []

    class Out:
        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None:
            flushed.append(gc.isenabled())

    monkeypatch.setattr(sys, "stdout", Out())
    call(lambda: None, {}, tmp_path / "solution.py", guard)
    assert flushed == [True]
    assert not gc.isenabled()

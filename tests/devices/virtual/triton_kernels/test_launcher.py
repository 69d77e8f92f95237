"""Launches: one kernel of the modelled stream each, Triton's own errors, what is refused, and whole programs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.cuda_errors import NoValues
from gpututor.trace.events import Event, Kind
from tests.support import ROOT
from tests.support.virtual_gpus import run_python

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from tests.support.triton_programs import PROGRAMS, fused_attention, matrix_product

pytest_plugins = ["pytester"]

CUDA: Any = torch.cuda


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def strided(x, out, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n), mask=at < n)


@triton.jit
def half_sum(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(values * 0.5 + values, axis=0))


@triton.jit
def never_ends(out):
    steps = 0
    while steps >= 0:
        steps = steps * 1
    tl.store(out, steps)


LENGTH = 4
WIDTH = tl.constexpr(4)


@triton.jit
def plain_global(x, y, out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), LENGTH)


@triton.jit
def constexpr_global(x, y, out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), WIDTH)


@triton.jit
def sort_and_flip(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    rows = tl.load(x + at)
    tl.store(out + at, tl.sort(rows, dim=1))
    tl.store(out + ROWS * COLUMNS + at, tl.flip(rows, 1))


@triton.jit
def product(x, out, M: tl.constexpr, K: tl.constexpr):
    rows, inner = tl.arange(0, M), tl.arange(0, K)
    block = tl.load(x + rows[:, None] * K + inner[None, :])
    tl.store(out + rows[:, None] * M + rows[None, :], tl.dot(block, tl.trans(block)))


def kernels(recorder: Recorder) -> list[Event]:
    return [event for event in recorder.complete() if event.kind is Kind.KERNEL]


def test_a_launch_is_one_kernel_without_copies(recorder: Recorder) -> None:
    x, y = torch.rand(3000, device="cuda"), torch.rand(3000, device="cuda")
    out = torch.empty_like(x)
    before = len(recorder.trace)
    add[(3,)](x, y, out, 3000, BLOCK=1024)
    line = sys._getframe().f_lineno - 1

    (event,) = list(recorder.complete())[before:]
    assert (event.kind, event.name, event.device, event.line) == (Kind.KERNEL, "add", "cuda:0", line)
    assert event.size_bytes == event.requested == 3 * 3000 * 4
    assert event.requested <= event.moved <= event.requested + 3 * 3 * 32
    assert event.programs == 3
    assert event.dtype == "float32"
    assert event.end > event.start >= event.launched
    assert torch.equal(out, x + y)


def test_a_launch_runs_on_the_current_stream_and_races_are_found(recorder: Recorder) -> None:
    x = torch.rand(256, device="cuda")
    out, side = torch.zeros_like(x), CUDA.Stream()
    with CUDA.stream(side):
        add[(1,)](x, x, out, 256, BLOCK=256)
    add[(1,)](x, x, out, 256, BLOCK=256)

    first, second = (event for event in recorder.complete() if event.name == "add")
    assert first.stream != 0 == second.stream
    hazards = [event.name for event in recorder.complete() if event.kind is Kind.HAZARD]
    assert "write after write" in hazards


def test_streams_that_wait_do_not_race(recorder: Recorder) -> None:
    x = torch.rand(256, device="cuda")
    out, side = torch.zeros_like(x), CUDA.Stream()
    side.wait_stream(CUDA.current_stream())
    with CUDA.stream(side):
        add[(1,)](x, x, out, 256, BLOCK=256)
    CUDA.current_stream().wait_stream(side)
    add[(1,)](x, out, out, 256, BLOCK=256)

    assert not [event for event in recorder.complete() if event.kind is Kind.HAZARD]


def test_scattered_accesses_move_more_and_take_longer(recorder: Recorder) -> None:
    n = 1 << 16
    x, out = torch.rand(8 * n, device="cuda"), torch.empty(n, device="cuda")
    for stride in (1, 8):
        strided[(triton.cdiv(n, 1024),)](x, out, n, stride, BLOCK=1024)
        assert torch.equal(out, x[: n * stride : stride])

    near, far = (event for event in kernels(recorder) if event.name == "strided")
    assert near.moved == near.requested == far.requested == 8 * n
    assert far.moved == 36 * n
    assert far.duration > near.duration


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_values_are_rounded_as_torch_rounds_them(dtype: torch.dtype, two_gpus: VirtualMachine) -> None:
    x, y = (torch.randn(500, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(x)
    add[(1,)](x, y, out, 500, BLOCK=512)
    assert torch.equal(out, x + y)
    total = torch.empty((), device="cuda", dtype=dtype)
    half_sum[(1,)](x, total, 500, BLOCK=512)
    torch.testing.assert_close(total, (x.double() * 1.5).sum().to(dtype), rtol=2e-2, atol=0.2)


def test_views_are_read_at_their_strides(two_gpus: VirtualMachine) -> None:
    whole = torch.arange(24.0, device="cuda").reshape(4, 6)
    column, out = whole[:, 2], torch.empty(4, device="cuda")
    strided[(1,)](column, out, 4, column.stride(0), BLOCK=4)
    assert out.tolist() == [2.0, 8.0, 14.0, 20.0]


@pytest.mark.parametrize(
    ("launch", "error", "words"),
    [
        (lambda x: add[(1,)](x.cpu(), x, x, 4, BLOCK=4), ValueError, r"Pointer argument \(at 0\) cannot be accessed"),
        (lambda x: add[(1,)](x, x, x.cpu(), 4, BLOCK=4), ValueError, r"Pointer argument \(at 2\) .*cpu tensor\?"),
        (lambda x: add[(1,)](x, x, BLOCK=4), TypeError, "missing 2 required positional arguments: 'out' and 'n'"),
        (lambda x: add[(1,)](x, x, x, 4, BLOCK=4, block=4), KeyError, "block was specified but unrecognised"),
        (lambda x: add[(1,)](x, x, x, 4, BLOCK=3), triton.runtime.errors.InterpreterError, "power of 2"),
        (lambda x: add[1](x, x, x, 4, BLOCK=4), TypeError, "tuple"),
        (lambda x: add[(1.5,)](x, x, x, 4, BLOCK=4), TypeError, "1.5"),
        (lambda x: add[(1, 1, 1, 1)](x, x, x, 4, BLOCK=4), ValueError, "not 4"),
        (lambda x: add[(1, 70000)](x, x, x, 4, BLOCK=4), RuntimeError, "invalid argument"),
        (lambda x: add[(1,)](x, x, x, 4, BLOCK=4, num_warps=3), AssertionError, "power of 2"),
        (lambda x: add(x, x, x, 4, BLOCK=4), RuntimeError, "Cannot call @triton.jit'd outside"),
        (lambda x: add[(1,)](x, x.to("cuda:1"), x, 4, BLOCK=4), RuntimeError, "illegal memory access.* cuda:1"),
        (lambda x: add[(1,)](x.tolist(), x, x, 4, BLOCK=4), TypeError, "failed to specialize argument of type: list"),
        (lambda x: plain_global[(1,)](x, x, x, 4, BLOCK=4), NameError, "Cannot access global variable LENGTH"),
        (lambda x: add[(1,)](x, x.to(torch.complex64), x, 4, BLOCK=4), NotImplementedError, "complex64"),
    ],
)
def test_bad_launches_have_clear_errors(launch: Any, error: type[Exception], words: str, two_gpus: Any) -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(error, match=words):
        launch(x)
    assert x.tolist() == [1.0] * 4


def test_constants_of_the_module_are_read(two_gpus: VirtualMachine) -> None:
    x = torch.ones(4, device="cuda")
    constexpr_global[(1,)](x, x, x, 4, BLOCK=4)
    assert x.tolist() == [4.0] * 4


@pytest.mark.skipif(triton.__version__.startswith("3.8"), reason="Triton 3.8 accepts smaller products")
def test_products_are_as_large_as_tensor_cores_need(two_gpus: VirtualMachine) -> None:
    x, out = torch.ones(64, device="cuda"), torch.empty(16, device="cuda")
    product[(1,)](x, out, M=4, K=16)
    assert out.tolist() == [16.0] * 16
    with pytest.raises(triton.runtime.errors.InterpreterError, match="K >= 16"):
        product[(1,)](x, out, M=4, K=8)


def test_rows_are_sorted_and_flipped(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.0, 5.0, 4.0, 6.0]], device="cuda")
    out = torch.empty(2, 2, 4, device="cuda")
    sort_and_flip[(1,)](x, out, ROWS=2, COLUMNS=4)
    assert out.tolist() == [x.sort(1).values.tolist(), x.flip(1).tolist()]


def test_an_empty_grid_launches_nothing(recorder: Recorder) -> None:
    x = torch.ones(4, device="cuda")
    add[(0,)](x, x, x, 4, BLOCK=4)
    assert "add" not in {event.name for event in kernels(recorder)}


def test_a_kernel_that_never_ends_meets_its_deadline(two_gpus: VirtualMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpututor.devices.virtual.triton_kernels import launcher

    monkeypatch.setattr(launcher, "DEADLINE_S", 0.2)
    with pytest.raises(launcher.KernelDoesNotEnd, match="never_ends, program 0"):
        never_ends[(1,)](torch.empty(1, device="cuda", dtype=torch.int32))


def test_a_graph_replays_kernels_on_new_values(recorder: Recorder) -> None:
    x, total = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
    graph = CUDA.CUDAGraph()
    with CUDA.graph(graph):
        doubled = torch.empty_like(x)
        add[(1,)](x, x, doubled, 4, BLOCK=4)
        add[(1,)](doubled, total, total, 4, BLOCK=4)
        shifted = total + 1
    assert total.tolist() == [0.0] * 4
    launched = len(kernels(recorder))
    x.fill_(3)
    for expected in (6.0, 12.0):
        graph.replay()
        assert (total.tolist(), shifted.tolist()) == ([expected] * 4, [expected + 1] * 4)
    names = [event.name for event in kernels(recorder)[launched:]]
    assert names.count("add") == 4


def test_a_mistake_during_a_capture_is_reported(two_gpus: VirtualMachine) -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(RuntimeError, match="add"), CUDA.graph(CUDA.CUDAGraph()):
        add[(1,)](x, x, x, 5, BLOCK=8)


def test_shapes_without_values_are_refused_by_name() -> None:
    with virtual_gpu(values=False), pytest.raises(NoValues, match="the Triton kernel add"):
        add[(1,)](*[torch.ones(4, device="cuda")] * 3, 4, BLOCK=4)


def test_without_gpus_triton_finds_no_driver(machine: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="0 active drivers"):
        add[(1,)](*[torch.ones(4)] * 3, 4, BLOCK=4)


def test_benchmarks_and_autotuning_use_modelled_time(recorder: Recorder) -> None:
    n = 1 << 15
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    configs = [triton.Config({"BLOCK": 8}, num_warps=1), triton.Config({"BLOCK": 2048}, num_warps=4)]
    tuned = triton.autotune(configs=configs, key=["n"])(strided)
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, 1)
    assert tuned.best_config.kwargs == {"BLOCK": 2048}
    # Checks judge the launch with the best configuration only.
    assert [event.programs for event in kernels(recorder) if event.programs] == [n // 2048]
    milliseconds = triton.testing.do_bench(lambda: add[(32,)](x, x, out, n, BLOCK=1024))
    assert 0 < milliseconds < 1


def test_a_kernel_in_a_compiled_function_is_launched_and_checked(recorder: Recorder) -> None:
    def double(x: torch.Tensor, n: int) -> torch.Tensor:
        out = torch.empty_like(x)
        add[(1,)](x, x, out, n, BLOCK=8)
        return out + 1

    x = torch.ones(4, device="cuda")
    with pytest.warns(UserWarning, match="triton_kernel_wrapper_mutation"):
        out = torch.compile(double, fullgraph=True)(x, 4)
    assert out.tolist() == [3.0] * 4
    assert [event.programs for event in kernels(recorder) if event.name == "add"] == [1]
    assert torch.compile(double, backend="eager")(x, 4).tolist() == [3.0] * 4
    with pytest.raises(RuntimeError, match=r"x\[4\]"):
        torch.compile(double)(x, 5)


def test_a_kernel_in_a_compiled_custom_operator_follows_its_input(recorder: Recorder) -> None:
    @torch.library.custom_op("test_launcher::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add[(1,)](x, x, out, x.numel(), BLOCK=8)
        return out

    double.register_fake(torch.empty_like)
    with pytest.warns(UserWarning, match="test_launcher::double"):
        out = torch.compile(lambda x: double(x + 1) * 3)(torch.ones(4, device="cuda"))
    assert out.tolist() == [12.0] * 4
    assert [event.name for event in kernels(recorder)][-3:] == ["aten::add", "add", "aten::mul"]


def test_a_warmed_kernel_states_what_it_needs_and_can_be_launched(two_gpus: VirtualMachine) -> None:
    x = torch.rand(64, device="cuda")
    out = torch.empty_like(x)
    warmed = add.warmup(x, x, out, 64, BLOCK=32, grid=(1,))
    assert warmed.n_regs > 0
    warmed[(2, 1, 1)](x, x, out, 64, 32)
    assert torch.equal(out, x + x)


def test_heuristics_choose_meta_parameters(two_gpus: VirtualMachine) -> None:
    chosen = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(add)
    x = torch.ones(100, device="cuda")
    out = torch.empty_like(x)
    chosen[(1,)](x, x, out, 100)
    assert out.sum().item() == 200


def test_triton_is_restored_afterwards() -> None:
    before = (triton.JITFunction.run, triton.JITFunction.__call__, tl.load, tl.tensor.__init__, tl.core.reduce)
    with virtual_gpu():
        x = torch.ones(4, device="cuda")
        add[(1,)](x, x, x, 4, BLOCK=4)
        assert triton.JITFunction.run is not before[0]
    assert before == (triton.JITFunction.run, triton.JITFunction.__call__, tl.load, tl.tensor.__init__, tl.core.reduce)


PROGRAM = """
import sys
from gpututor.devices.virtual import virtual_gpu
with virtual_gpu():
    assert "triton" not in sys.modules
    import torch
    watches = lambda: any("after_import" in type(finder).__module__ for finder in sys.meta_path)
    assert watches()
    import triton
    assert type(triton.__spec__.loader).__module__.startswith("importlib") or "frozen" in repr(triton.__spec__.loader)
assert not watches()
VERSION
with virtual_gpu():
    import kernel_file
    kernel_file.launch(torch.ones(4, device="cuda"))
print("launched")
"""
KERNEL = """
import triton, triton.language as tl
@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at))
def launch(x):
    double[(1,)](x, BLOCK=4)
    assert x.tolist() == [2.0] * 4
"""


@pytest.mark.parametrize("version", ["", "triton.__version__ = '2.1.0'"])
def test_triton_is_imported_by_the_program_only(version: str, tmp_path: Any) -> None:
    (tmp_path / "kernel_file.py").write_text(KERNEL)
    (tmp_path / "program.py").write_text(PROGRAM.replace("VERSION", version))
    done = run_python("program.py", cwd=tmp_path)
    if not version:
        assert done.stdout == "launched\n", done.stderr
    else:
        assert done.returncode == 1
        assert "Triton 3.6 to 3.8, but this is Triton 2.1.0" in done.stderr
        assert 'pip install "gpututor[triton]"' in done.stderr


@triton.jit
def move_tile(source, target, row, BLOCK: tl.constexpr):
    tile = source.load([row, 0])
    target.store([0, row], tile.T)


def test_descriptors_of_the_host_move_tiles(recorder: Recorder) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.rand(32, 16, device="cuda"), torch.zeros(16, 32, device="cuda")
    source, target = TensorDescriptor.from_tensor(x, [16, 16]), TensorDescriptor.from_tensor(out, [16, 16])
    move_tile[(1,)](source, target, 16, BLOCK=16)
    assert torch.equal(out[:, 16:], x[16:].T)
    assert not out[:, :16].any()
    (event,) = (event for event in kernels(recorder) if event.name == "move_tile")
    assert event.requested == 2 * 16 * 16 * 4


@triton.jit
def sign_bits(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) >> 31, mask=at < n)


def test_a_reinterpreted_tensor_is_read_as_the_other_dtype(two_gpus: VirtualMachine) -> None:
    x, out = torch.tensor([1.0, -2.0, -0.0], device="cuda"), torch.empty(3, device="cuda", dtype=torch.int32)
    sign_bits[(1,)](triton.reinterpret(x, tl.int32), out, 3, BLOCK=4)
    assert out.tolist() == [0, -1, -1]


def test_a_mistake_in_a_kernel_has_the_kernels_line(two_gpus: VirtualMachine) -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(triton.runtime.errors.InterpreterError, match="not_defined") as caught:
        broken[(1,)](x)
    lines = [entry.lineno + 1 for entry in caught.traceback if str(entry.path) == __file__]
    assert broken.starting_line_number + 2 in lines


@triton.jit
def broken(x):
    tl.store(x, not_defined)  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_torch_computes(name: str) -> None:
    with virtual_gpu(model="A100"):
        assert PROGRAMS[name]() < 1e-3


def test_the_options_of_programs_reach_the_kernels() -> None:
    with virtual_gpu():
        assert fused_attention(length=32, causal=False) < 1e-3
        assert matrix_product(activation="") < 1e-3


@pytest.mark.long
def test_programs_run_under_the_pytest_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tests.support.triton_programs import PROGRAMS

        @pytest.mark.parametrize("name", PROGRAMS)
        def test_program(name):
            assert PROGRAMS[name]() < 1e-3
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = ("-p", "gpututor.pytest_plugin", "--virtual-gpus=1", "-p", "no:cacheprovider", "-q")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=len(PROGRAMS))

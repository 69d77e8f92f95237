"""Dynamo on a virtual GPU: graphs, breaks, guards, errors and gradients. Values are those of eager code."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn import functional as F

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES, Kind
from tests.support.virtual_gpus import gradient

GPU = torch.device("cuda:0")


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _ranges(recorder: Recorder, prefix: str) -> list[Any]:
    return [event for event in recorder.trace if event.kind is Kind.RANGE and event.name.startswith(prefix)]


def _branch(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y.relu()


def test_a_branch_on_data_breaks_the_graph_where_it_is(recorder: Recorder) -> None:
    x = torch.ones(8, device="cuda")
    assert torch.equal(torch.compile(_branch)(x), _branch(x))
    (end,) = _ranges(recorder, GRAPH_BREAK)
    assert end.line == _branch.__code__.co_firstlineno + 2
    report = torch._dynamo.explain(_branch)(x)
    assert (report.graph_count, report.graph_break_count) == (2, 1)


def test_a_break_before_the_first_operator_is_recorded(recorder: Recorder) -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x + 1

    compiled = torch.compile(add)
    for _ in range(3):
        compiled(torch.ones(8, device="cuda"))
    (end,) = _ranges(recorder, GRAPH_BREAK)
    assert end.line == add.__code__.co_firstlineno + 1


def test_a_break_in_a_loop_is_recorded_though_nothing_is_compiled(recorder: Recorder) -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + 1
            print(end="")
        return x

    assert torch.compile(add)(torch.ones(2, device="cuda")).tolist() == [3.0, 3.0]
    assert {end.line for end in _ranges(recorder, GRAPH_BREAK)} == {add.__code__.co_firstlineno + 3}
    assert _ranges(recorder, COMPILES) == []


def test_fullgraph_raises_dynamos_error(two_gpus: VirtualMachine) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching"):
        torch.compile(_branch, fullgraph=True)(torch.ones(8, device="cuda"))


def test_a_new_shape_compiles_again_then_shapes_are_dynamic(recorder: Recorder) -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).relu()

    compiled = torch.compile(add)
    for rows in (2, 3, 4, 5, 6):
        x = torch.randn(rows, 4, device="cuda")
        assert torch.equal(compiled(x), add(x))
    assert len(_ranges(recorder, COMPILES)) == 2
    (again,) = _ranges(recorder, RECOMPILES)
    assert "size mismatch at index 0. expected 2, actual 3" in again.name


def test_marked_dimensions_compile_once(recorder: Recorder) -> None:
    compiled = torch.compile(lambda x: x.sin() + x.shape[0])
    for rows in (2, 3, 4):
        x = torch.ones(rows, device="cuda")
        torch._dynamo.mark_dynamic(x, 0)
        assert compiled(x)[0].item() == pytest.approx(torch.ones(()).sin().item() + rows)
    assert len(_ranges(recorder, COMPILES)) == 1


def test_the_recompile_limit_ends_compilation(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    compiled = torch.compile(lambda x: x + 1, dynamic=False)
    with caplog.at_level(logging.WARNING, logger="torch._dynamo"):
        for rows in range(2, 14):
            assert compiled(torch.ones(rows, device="cuda")).shape == (rows,)
    assert len(_ranges(recorder, COMPILES)) == torch._dynamo.config.recompile_limit


def test_logs_name_breaks_without_frames_of_the_virtual_gpu(
    two_gpus: VirtualMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    logs: Any = torch._logging
    logs.set_logs(graph_breaks=True)
    try:
        torch.compile(_branch)(torch.ones(8, device="cuda"))
    finally:
        logs.set_logs()
    logged = capfd.readouterr().err
    assert "Graph break in user code at" in logged
    assert "gpututor/devices" not in logged


def _linear_chain() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4))


def _images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
    )


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, dropout=0.0)
    return nn.Sequential(layer, nn.LayerNorm(8))


@pytest.mark.parametrize(
    ("make", "shape"),
    [(_linear_chain, (6, 8)), (_images, (2, 3, 8, 8)), (_encoder, (2, 5, 8))],
    ids=["linear", "images", "encoder"],
)
def test_training_gives_the_values_of_eager_code(
    make: Callable[[], nn.Module], shape: tuple[int, ...], two_gpus: VirtualMachine
) -> None:
    model = make().cuda()
    twin = copy.deepcopy(model)
    x = torch.randn(shape, device="cuda")
    results = []
    modules: tuple[Any, ...] = (torch.compile(model), twin)
    for module in modules:
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(2):
            loss = F.mse_loss(module(x), torch.zeros((), device="cuda").expand_as(module(x)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        results.append(loss)
    assert torch.equal(*results)
    for mine, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_compiled_function_has_one_node_of_autograd(two_gpus: VirtualMachine) -> None:
    square = torch.compile(lambda x: (x * x).sum())
    x = torch.ones(3, device="cuda", requires_grad=True)
    y = square(x)
    assert type(y.grad_fn).__name__ == "CompiledFunctionBackward"
    y.backward(retain_graph=True)
    y.backward()
    assert gradient(x).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    (slope,) = torch.autograd.grad(square(x), x)
    assert slope.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(square(x), x, create_graph=True)


def test_inputs_that_a_graph_writes_are_written(two_gpus: VirtualMachine) -> None:
    @torch.compile
    def move(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        mean.mul_(0.5).add_(x.detach().mean())
        return (x * mean).sum()

    x, mean = torch.ones(4, device="cuda", requires_grad=True), torch.ones((), device="cuda")
    move(x, mean).backward()
    assert mean.item() == 1.5
    assert gradient(x).tolist() == [1.5] * 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backends_train(backend: str, two_gpus: VirtualMachine) -> None:
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)
    out = torch.compile(lambda x: (x @ weight).relu().sum(), backend=backend)(torch.ones(2, 4, device="cuda"))
    out.backward()
    assert out.item() == 32.0
    assert gradient(weight).device == GPU
    assert gradient(weight).tolist() == [[2.0] * 4] * 4


def test_autocast_inside_and_around(two_gpus: VirtualMachine) -> None:
    model = nn.Linear(8, 8).cuda()

    @torch.compile
    def inside(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.float16):
            out: torch.Tensor = model(x)
        return out

    x = torch.ones(2, 8, device="cuda")
    assert inside(x).dtype is torch.float16
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.compile(model)(x).dtype is torch.bfloat16


def test_compiled_optimizer_steps(two_gpus: VirtualMachine) -> None:
    parameters = [nn.Parameter(torch.ones(4, device="cuda")) for _ in range(3)]
    twins = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    for group, wrap in ((parameters, torch.compile), (twins, lambda step: step)):
        optimizer = torch.optim.AdamW(group, lr=0.1)
        step: Any = wrap(optimizer.step)
        for _ in range(3):
            for parameter in group:
                parameter.grad = torch.ones_like(parameter)
            step()
    assert all(torch.allclose(mine, theirs) for mine, theirs in zip(parameters, twins, strict=True))


def test_custom_functions_operators_and_transforms(two_gpus: VirtualMachine) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = 2 * ctx.saved_tensors[0] * grad
            return out

    x = torch.ones(3, device="cuda", requires_grad=True)
    square: Any = Square.apply
    torch.compile(lambda x: square(x).sum())(x).backward()
    assert gradient(x).tolist() == [2.0] * 3
    rows = torch.ones(2, 3, device="cuda")
    assert torch.compile(torch.func.vmap(lambda row: row.sum()))(rows).tolist() == [3.0, 3.0]
    assert torch.compile(torch.func.grad(lambda row: (row**2).sum()))(rows[0]).tolist() == [2.0] * 3


def test_devices_that_do_not_match_are_dynamos_error(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match=r"devices,? cuda:0(,| and) cpu"):
        torch.compile(lambda x, y: x + y)(torch.ones(2, device="cuda"), torch.ones(2))


@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda"), GPU, 0])
def test_tensors_are_made_and_moved_inside(
    device: Any, two_gpus: VirtualMachine, recwarn: pytest.WarningsRecorder
) -> None:
    made = torch.compile(lambda: torch.ones(2, device=device) * 2)()
    moved = torch.compile(lambda x: x.to(device) + x.cuda())(torch.ones(2))
    assert made.device == moved.device == GPU
    assert made.tolist() == moved.tolist() == [2.0, 2.0]
    assert not [str(warning.message) for warning in recwarn if "virtual GPU" in str(warning.message)]


def test_a_number_is_a_gpu_inside(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda:1")
    out = torch.compile(lambda x: torch.zeros(2, device=torch.device(1)) + x.cpu().cuda(1), fullgraph=True)(x)
    assert (out.device, out.tolist()) == (torch.device("cuda:1"), [1.0, 1.0])


def test_control_flow_is_captured_whole_and_named(two_gpus: VirtualMachine) -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))
        return chosen * 2

    def double(n: torch.Tensor, x: torch.Tensor) -> Any:
        loop: Any = torch._higher_order_ops.while_loop
        return loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (n, x))

    x = torch.ones(2, device="cuda", requires_grad=True)
    compiled = torch.compile(choose, fullgraph=True)
    with pytest.warns(UserWarning, match="cond"):
        compiled(x).sum().backward()
    assert torch.allclose(gradient(x), 2 * x.detach().cos())
    assert torch.allclose(compiled(-x), 2 * x.cos())
    for backend in ("eager", "aot_eager"):
        assert torch.equal(torch.compile(choose, fullgraph=True, backend=backend)(x), choose(x))
    with pytest.warns(UserWarning, match="while_loop"):
        n, out = torch.compile(double, fullgraph=True)(torch.zeros((), device="cuda"), x.detach())
    assert (n.item(), out.tolist()) == (3, [8.0, 8.0])


def test_products_with_zero_are_folded(recorder: Recorder, recwarn: pytest.WarningsRecorder) -> None:
    assert torch.compile(lambda x: x * 0 + 1)(torch.ones(2, device="cuda")).tolist() == [1.0, 1.0]
    assert len(_ranges(recorder, COMPILES)) == 1
    assert not [str(warning.message) for warning in recwarn if "virtual GPU" in str(warning.message)]


def test_bad_options_are_torchs_errors(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(lambda x: x, mode="fast")
    with pytest.raises(NotImplementedError, match=r'torch\.compile\(backend="cudagraphs"\)'):
        torch.compile(lambda x: x, backend="cudagraphs")
    with pytest.raises(Exception, match="Invalid backend: 'fast'"):
        torch.compile(lambda x: x + 1, backend="fast")(torch.ones(2, device="cuda"))


def test_another_version_of_the_compiler_runs_eagerly_and_says_so(
    two_gpus: VirtualMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpututor.devices.virtual.compiler.inductor", None)
    with pytest.warns(UserWarning, match="runs eagerly on the virtual GPU"):
        out = torch.compile(lambda x: x + 1)(torch.ones(2, device="cuda"))
    assert out.tolist() == [2.0, 2.0]


Compile = Callable[[Callable[..., Any]], Any]


def _twice(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is no leaf."""
    return x * 2


def _write_to_a_view_of_an_input(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    twice = _twice(x)
    view, other = compile(lambda each: (each.t(), each + 1))(twice)
    view.mul_(3)
    return twice.sum() + (view * other.t()).sum()


def _write_to_a_view_of_a_result(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def rows(each: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        twice = each * 2
        return twice, twice[0]

    twice, row = compile(rows)(x)
    row.mul_(3)
    return (twice * w).sum()


def _write_inside_to_an_input(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    twice = _twice(x)
    out = compile(lambda each: each.mul_(3).sin())(twice)
    return (out * w).sum() + twice.square().sum()


def _write_inside_to_a_view(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def write(each: torch.Tensor, by: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        each.mul_(by)
        return each + 1, each[0]

    twice = _twice(x)
    out, row = compile(write)(twice[:, 1:], w[1:])
    row.mul_(5)
    return twice.sum() + out.sum()


def _write_to_an_input_without_gradient(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    total = torch.zeros(3, device=x.device)
    out = compile(lambda sum, each: sum.add_(each) * 1)(total, w)
    return out.sum() + 2 * total.sum() + x.sum()


def _write_to_inputs_that_overlap(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def write(each: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        each.mul_(2)
        return other * 3

    row = _twice(x).view(-1)
    return compile(write)(row[:4], row[2:]).sum() + row.sum() + w.sum()


def _results_without_gradient(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def mixed(each: torch.Tensor) -> tuple[torch.Tensor, ...]:
        twice = each * 2
        with torch.no_grad():
            view = each.view(-1)
        return twice, twice.detach(), each.detach(), view, each.view(-1)[:2]

    results = compile(mixed)(_twice(x))
    assert [result.requires_grad for result in results] == [True, False, False, True, True]
    return sum((result.sum() for result in results), w.sum())


def _no_gradient_comes_back(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, each: torch.Tensor) -> torch.Tensor:
            return each * 1

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> None:
            return None

    stopped: Any = Stop.apply(compile(_twice)(x))  # type: ignore[no-untyped-call]
    return stopped.sum() + x.sum() + w.sum()


def _write_after_a_graph_break(compile: Compile, x: torch.Tensor, w: torch.Tensor) -> Any:
    def activate(each: torch.Tensor) -> torch.Tensor:
        out = each * 2 - 3
        torch._dynamo.graph_break()
        return F.relu(out, inplace=True) + each

    return (compile(activate)(x) * w).sum()


@pytest.mark.parametrize(
    "program",
    [
        _write_to_a_view_of_an_input,
        _write_to_a_view_of_a_result,
        _write_inside_to_an_input,
        _write_inside_to_a_view,
        _write_to_an_input_without_gradient,
        _write_to_inputs_that_overlap,
        _results_without_gradient,
        _no_gradient_comes_back,
        _write_after_a_graph_break,
    ],
    ids=lambda program: program.__name__.strip("_"),
)
def test_gradients_are_those_of_eager_code(program: Any, two_gpus: VirtualMachine) -> None:
    results = []
    for compile, device in ((lambda function: function, "cpu"), (torch.compile, "cuda")):
        x = torch.arange(6.0, device=device).view(2, 3).requires_grad_()
        w = torch.ones(3, device=device, requires_grad=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Eager kernels compute the gradients")
            loss = program(compile, x, w)
        loss.backward()
        results.append([None if value is None else value.detach().cpu() for value in (loss, x.grad, w.grad)])
    torch.testing.assert_close(results[1], results[0])


def test_gradients_by_eager_kernels_are_announced(two_gpus: VirtualMachine) -> None:
    x, w = torch.ones(2, 3, device="cuda", requires_grad=True), torch.ones(3, device="cuda")
    with pytest.warns(UserWarning, match="Eager kernels compute the gradients") as seen:
        _write_to_inputs_that_overlap(torch.compile, x, w)
    assert [warning.filename for warning in seen] == [__file__]


def test_a_write_to_a_leaf_is_autograds_error(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.compile(lambda each: each.mul_(2) + 1)(x)


def test_losses_that_broadcast_have_a_backward_graph(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "aten::broadcast_tensors")
        torch.compile(F.mse_loss)(x, torch.zeros(2, 3, device="cuda")).backward()
    assert torch.allclose(gradient(x), x / 3)

"""Traced and scripted modules run on the device, and are saved and loaded."""

from __future__ import annotations

import copy
import io
import pathlib
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.parameters import mostly_long
from tests.support.virtual_gpus import printed

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning"),
]
GPU = torch.device("cuda:0")


class Recurrent(nn.Module):
    """Takes its initial state as an argument: a trace keeps the device of a state that it creates, as on CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)
        self.register_buffer("start", torch.zeros(1, 2, 4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x, self.start)


MODELS: dict[str, Any] = {
    "linear": lambda: (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.randn(2, 4)),
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding="same"),
            nn.BatchNorm2d(2),
            nn.Conv2d(2, 2, 2, padding="same"),
            nn.ConvTranspose2d(2, 1, 2, stride=2, output_padding=1),
            nn.MaxPool2d(2),
        ),
        torch.randn(2, 1, 6, 6),
    ),
    "recurrent": lambda: (Recurrent(), torch.randn(2, 5, 3)),
    "transformer": lambda: (nn.TransformerEncoderLayer(4, 2, 8, 0.0), torch.randn(3, 2, 4)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)), torch.tensor([[0, 4], [2, 1]])),
}


def _first(out: Any) -> torch.Tensor:
    result: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return result


def _saved(program: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", MODELS)
def test_a_traced_device_module_is_saved_and_loaded(two_gpus: VirtualMachine, kind: str) -> None:
    model, x = MODELS[kind]()
    # As on CUDA, cuDNN's recurrent layers have gradients in training mode only.
    expected = _first(model.train(kind == "recurrent")(x)).detach()
    model.cuda()
    traced: Any = torch.jit.trace(model, x.cuda())
    assert next(traced.parameters()) is next(model.parameters())
    default: Any = torch.jit.load(_saved(traced))
    named: Any = torch.jit.load(_saved(traced), map_location="cuda:1")
    for program, device in ((traced, "cuda:0"), (default, "cuda:0"), (named, "cuda:1")):
        assert {str(tensor.device) for tensor in (*program.parameters(), *program.buffers())} == {device}
        for _ in range(4):  # The interpreter rewrites the graph after the first runs.
            program.zero_grad()
            out = _first(program(x.to(device)))
            assert str(out.device) == device
            torch.testing.assert_close(out.detach().cpu(), expected, rtol=1e-4, atol=1e-5)
            (out * out).sum().backward()
        assert all(
            parameter.grad is not None and str(parameter.grad.device) == device for parameter in program.parameters()
        )
    on_host: Any = torch.jit.load(_saved(traced), map_location="cpu")
    assert {parameter.device.type for parameter in on_host.parameters()} == {"cpu"}
    torch.testing.assert_close(_first(on_host(x)).detach(), expected, rtol=1e-4, atol=1e-5)


def test_a_file_is_read_without_the_virtual_gpu_too(tmp_path: pathlib.Path) -> None:
    with virtual_gpu(1):
        model = nn.Linear(2, 2).cuda()
        torch.jit.trace(model, torch.ones(1, 2, device="cuda")).save(tmp_path / "model.pt")
        expected = model(torch.ones(1, 2, device="cuda")).detach().cpu()
    loaded: Any = torch.jit.load(tmp_path / "model.pt", map_location="cpu")
    torch.testing.assert_close(loaded(torch.ones(1, 2)).detach(), expected)
    # On a machine with GPUs of its own, where the file is a CPU file.
    with virtual_gpu(1):
        again: Any = torch.jit.load(tmp_path / "model.pt", map_location="cuda")
        torch.testing.assert_close(again(torch.ones(1, 2, device="cuda")).detach().cpu(), expected)


def test_a_cpu_file_stays_on_the_cpu_unless_asked(two_gpus: VirtualMachine) -> None:
    traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    loaded: Any = torch.jit.load(_saved(traced))
    assert loaded.weight.device.type == "cpu"
    assert type(loaded(torch.ones(1, 2))) is torch.Tensor
    moved: Any = torch.jit.load(_saved(traced), map_location=GPU)
    assert moved(torch.ones(1, 2, device="cuda")).device == GPU


def test_tensors_that_a_trace_creates_are_on_the_device(two_gpus: VirtualMachine) -> None:
    kept = torch.arange(2.0, device="cuda")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * torch.full((2,), 3.0, device="cuda") + kept

    x = torch.ones(2, device="cuda")
    traced: Any = torch.jit.trace(function, x)
    file = io.BytesIO(traced.save_to_buffer())
    for program in (traced, torch.jit.load(file), traced):
        out = program(x)
        assert out.device == GPU
        assert out.tolist() == [3.0, 4.0]


def test_a_trace_keeps_the_gpu_of_its_factories_as_on_cuda(two_gpus: VirtualMachine) -> None:
    traced: Any = torch.jit.trace(nn.LSTM(3, 4).cuda(), torch.randn(5, 2, 3, device="cuda"))
    assert torch.jit.load(_saved(traced))(torch.randn(5, 2, 3, device="cuda"))[0].device == GPU
    elsewhere: Any = torch.jit.load(_saved(traced), map_location="cuda:1")
    with pytest.raises(RuntimeError, match="found input tensor at cuda:1 and hidden tensor at cuda:0") as caught:
        elsewhere(torch.randn(5, 2, 3, device="cuda:1"))
    assert "meta" not in str(caught.value)


def test_extra_files_are_kept_and_the_internal_file_is_hidden(two_gpus: VirtualMachine) -> None:
    traced = torch.jit.trace(nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda"))
    file = io.BytesIO()
    torch.jit.save(traced, file, _extra_files={"notes": "hello"})
    file.seek(0)
    results: dict[str, Any] = {"notes": ""}
    torch.jit.load(file, _extra_files=results)
    assert results == {"notes": b"hello"}


def test_a_traced_module_moves_and_its_optimizer_follows(two_gpus: VirtualMachine) -> None:
    program: Any = torch.jit.trace(nn.Linear(2, 1), torch.ones(1, 2))
    stepper = torch.optim.SGD(program.parameters(), lr=0.5)
    program.cuda()
    before = program(torch.ones(1, 2, device="cuda"))
    before.sum().backward()
    stepper.step()
    after = program(torch.ones(1, 2, device="cuda"))
    torch.testing.assert_close(after, before - 1.5)
    assert program.cpu()(torch.ones(1, 2)).device.type == "cpu"


@pytest.mark.parametrize("training", [False, True])
def test_layers_with_fused_paths_can_be_scripted(two_gpus: VirtualMachine, training: bool) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).cuda().train(training)
    x = torch.randn(2, 3, 4, device="cuda")
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.script(layer)(x), layer(x))


def test_scripted_modules_run_and_are_saved_like_traced_ones(two_gpus: VirtualMachine) -> None:
    class Forked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.shift: torch.Tensor
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layer(x)
            if bool(x.sum() > 0):
                return out + self.shift
            return out * 2

    model = Forked().cuda()
    scripted: Any = torch.jit.script(model)
    for program in (scripted, torch.jit.load(_saved(scripted))):
        for x in (torch.ones(1, 2, device="cuda"), -torch.ones(1, 2, device="cuda")):
            out = program(x)
            assert out.device == GPU
            torch.testing.assert_close(out, model(x))
            out.sum().backward()
    on_host: Any = torch.jit.load(_saved(scripted), map_location="cpu")
    torch.testing.assert_close(on_host(torch.ones(1, 2)), model(torch.ones(1, 2, device="cuda")).cpu())


def test_a_graph_and_its_code_name_the_gpu(two_gpus: VirtualMachine) -> None:
    kept = torch.ones(2, device="cuda:1")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + kept + torch.zeros(2, device="cuda:1")

    traced: Any = torch.jit.trace(function, torch.ones(2, device="cuda:1"))
    module: Any = torch.jit.trace(nn.LSTM(2, 2).cuda(), torch.ones(1, 1, 2, device="cuda"))
    for text in (str(traced.graph), repr(traced.graph), module.code, str(module.graph)):
        assert "meta" not in text.lower()
        assert "cuda" in text


def test_scripts_and_traces_are_copied_and_change_dtype(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(2, 2).cuda()
    x = torch.ones(1, 2, device="cuda")
    for program in (torch.jit.script(layer), torch.jit.trace(layer, x)):
        twin: Any = copy.deepcopy(program)
        torch.testing.assert_close(twin(x), layer(x))
        assert twin.weight is not layer.weight
        assert twin.double()(x.double()).dtype is torch.float64


REFUSED = {
    "moving": "torch.jit.script(to_gpu)(torch.ones(1))",
    "moving by name": "torch.jit.script(to_named_gpu)(torch.ones(1))",
    "freeze": "torch.jit.freeze(torch.jit.script(nn.Linear(2, 2).cuda().eval()))",
    "optimise": "torch.jit.optimize_for_inference(torch.jit.script(nn.Linear(2, 2).cuda().eval()))",
    "mobile": "torch.jit.script(nn.Linear(2, 2).cuda())._save_for_lite_interpreter('/dev/null')",
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="TorchScript's own code moves tensors to the real GPU")
@pytest.mark.parametrize("kind", mostly_long(REFUSED, ["moving"]))
def test_calls_that_run_only_in_cpp_are_refused_by_name(kind: str, tmp_path: pathlib.Path) -> None:
    program = (
        "import torch\nfrom torch import nn\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "def to_gpu(x: torch.Tensor):\n    return x.cuda()\n"
        "def to_named_gpu(x: torch.Tensor):\n    return x.to('cuda:0')\n"
        f"with virtual_gpu(1):\n    try:\n        {REFUSED[kind]}\n"
        "    except NotImplementedError as error:\n        print('refused:', error)\n"
    )
    (tmp_path / "program.py").write_text(program)  # TorchScript reads the source.
    output = printed("-W", "ignore", str(tmp_path / "program.py"))
    assert output.startswith("refused: The virtual GPU does not support ")

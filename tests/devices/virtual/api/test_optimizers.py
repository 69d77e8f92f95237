"""Each optimizer of `torch.optim` takes the same steps on the device as on the CPU."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import nn
from torch.torch_version import TorchVersion

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine
from tests.support.virtual_gpus import printed

GPU = torch.device("cuda:0")
OPTIONS: dict[str, dict[str, Any]] = {
    "Adadelta": {"lr": 0.5},
    "Adafactor": {"lr": 0.05},
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.05},
    "Adamax": {"lr": 0.05},
    "ASGD": {"lr": 0.05},
    "NAdam": {"lr": 0.05},
    "RAdam": {"lr": 0.05},
    "RMSprop": {"lr": 0.05, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.05},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}
FUSED_ON_CUDA = ("Adam", "AdamW", "SGD", *(["Adagrad"] if TorchVersion(torch.__version__) >= "2.12" else []))


def _ways() -> list[Any]:
    ways = []
    for name, options in OPTIONS.items():
        known = inspect.signature(getattr(torch.optim, name)).parameters
        chosen = [{}, {"foreach": False}, {"foreach": True}, {"maximize": True}]
        chosen += [{"fused": True}] if name in FUSED_ON_CUDA else []
        chosen += [{"capturable": True}, {"capturable": True, "foreach": True}] if "capturable" in known else []
        chosen += [{"differentiable": False}] if "differentiable" in known else []
        for way in chosen:
            label = name + "".join(f" {key}={value}" for key, value in way.items())
            ways.append(pytest.param(name, {**options, **way}, id=label))
    return ways


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def _losses(model: nn.Module, stepper: torch.optim.Optimizer, device: str) -> list[float]:
    x, target = torch.linspace(-1, 1, 24).reshape(6, 4).to(device), torch.ones(6, 2).to(device)
    losses = []
    for _ in range(4):
        stepper.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("name", "options"), _ways())
def test_an_optimizer_takes_the_cpus_steps(two_gpus: VirtualMachine, name: str, options: dict[str, Any]) -> None:
    on_host = _network()
    on_gpu = copy.deepcopy(on_host).cuda()
    kind = getattr(torch.optim, name)
    plain = {key: value for key, value in options.items() if key not in ("fused", "foreach", "capturable")}
    expected = _losses(on_host, kind(on_host.parameters(), **plain), "cpu")
    stepper = kind(on_gpu.parameters(), **options)
    assert _losses(on_gpu, stepper, "cuda") == pytest.approx(expected, rel=1e-4)
    for parameter, other in zip(on_host.parameters(), on_gpu.parameters(), strict=True):
        assert other.device == GPU
        torch.testing.assert_close(other.detach().cpu(), parameter.detach(), rtol=1e-4, atol=1e-5)
    for state in stepper.state.values():
        for key, value in state.items():
            # Counts may stay on the host, where they are read.
            on_host_as_well = key in ("step", "mu_product") and not (options.get("capturable") or options.get("fused"))
            assert on_host_as_well or not isinstance(value, torch.Tensor) or value.device == GPU, key


def test_lbfgs_and_muon_take_the_cpus_steps(two_gpus: VirtualMachine) -> None:
    start, weights = torch.tensor([[1.5, -0.7], [0.3, 0.9]]), torch.tensor([[1.0, 3.0], [0.2, 5.0]])
    for name, options in (("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 3}), ("Muon", {"lr": 0.1})):
        results = []
        for device in ("cpu", "cuda"):
            point = nn.Parameter(start.clone().to(device))
            stepper = getattr(torch.optim, name)([point], **options)

            def closure(point: nn.Parameter = point, stepper: Any = stepper) -> torch.Tensor:
                stepper.zero_grad()
                loss = ((point - 1) ** 2 * weights.to(point.device)).sum()
                loss.backward()
                return loss

            for _ in range(2):
                stepper.step(closure)
            assert point.device.type == device
            results.append(point.detach().cpu())
        torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-3)


def test_parameter_groups_schedulers_and_saved_state(two_gpus: VirtualMachine) -> None:
    model: Any = _network().cuda()
    stepper = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}])
    schedulers: list[Any] = [
        torch.optim.lr_scheduler.OneCycleLR(stepper, 0.1, total_steps=20),
        torch.optim.lr_scheduler.CosineAnnealingLR(stepper, 10),
        torch.optim.lr_scheduler.ReduceLROnPlateau(stepper, patience=0),
    ]
    _losses(model, stepper, "cuda")
    for scheduler in schedulers[:2]:
        scheduler.step()
    before = stepper.param_groups[0]["lr"]
    for _ in range(3):
        schedulers[2].step(torch.tensor(1.0, device="cuda"))
    assert stepper.param_groups[0]["lr"] < before
    for network in (_network().cuda(), _network()):
        torch.optim.AdamW(network.parameters()).add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    twin: Any = _network().to("cuda:1")
    loaded = torch.optim.AdamW([{"params": twin[0].parameters()}, {"params": twin[2].parameters()}])
    loaded.load_state_dict(stepper.state_dict())
    assert {value["exp_avg"].device for value in loaded.state.values()} == {torch.device("cuda:1")}
    assert {value["step"].device.type for value in loaded.state.values()} == {"cpu"}


def test_a_learning_rate_on_the_device_works_if_it_does_on_cuda(two_gpus: VirtualMachine) -> None:
    model = _network().cuda()
    ways: Any = [{"fused": True}, {"capturable": True, "foreach": False}, {"capturable": True, "foreach": True}]
    for options in ways:
        stepper = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01, device="cuda"), **options)
        assert len(_losses(model, stepper, "cuda")) == 4


def test_state_on_the_cpu_and_capturable_are_refused_as_torch_does(two_gpus: VirtualMachine) -> None:
    model = _network()
    stepper = torch.optim.Adam(model.parameters(), capturable=True)
    with pytest.raises(AssertionError, match="capturable"):
        _losses(model, stepper, "cpu")
    stepper = torch.optim.Adam(model.parameters(), lr=0.05)
    _losses(model, stepper, "cpu")
    model.cuda()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        _losses(model, stepper, "cuda")


def test_clipping_gives_the_cpus_norm(two_gpus: VirtualMachine) -> None:
    on_host = _network()
    on_gpu = copy.deepcopy(on_host).cuda()
    for model, device in ((on_host, "cpu"), (on_gpu, "cuda")):
        model(torch.ones(3, 4, device=device)).sum().backward()
    for foreach in (None, True, False):
        expected = nn.utils.clip_grad_norm_(on_host.parameters(), 0.5, foreach=foreach)
        norm = nn.utils.clip_grad_norm_(on_gpu.parameters(), 0.5, foreach=foreach)
        assert norm.device == GPU
        torch.testing.assert_close(norm.cpu(), expected)
        nn.utils.clip_grad_value_(on_gpu.parameters(), 0.1, foreach=foreach)
        nn.utils.clip_grad_value_(on_host.parameters(), 0.1, foreach=foreach)


def test_optimizers_and_clipping_use_foreach_kernels_as_on_cuda(recorder: Recorder) -> None:
    model = _network().cuda()
    stepper = torch.optim.Adam(model.parameters(), lr=0.01)
    model(torch.randn(2, 4, device="cuda")).sum().backward()
    start = len(recorder.trace)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    stepper.step()
    names = {event.name for event in recorder.trace.since(start)}
    assert names >= {"aten::_foreach_norm", "aten::_foreach_addcdiv_"}
    assert "aten::addcdiv_" not in names


@pytest.mark.long
def test_an_optimizer_works_in_a_new_process() -> None:
    """The first optimizer imports torch._dynamo, which allows a function only under names with the same rule."""
    program = (
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "with virtual_gpu(1):\n"
        "    weight = torch.ones(2, device='cuda', requires_grad=True)\n"
        "    optimizer = torch.optim.SGD([weight], lr=0.5)\n"
        "    weight.sum().backward()\n    optimizer.step()\n    print(weight.tolist())\n"
    )
    assert printed("-c", program) == "[0.5, 0.5]\n"

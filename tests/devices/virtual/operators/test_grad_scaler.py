"""Mixed-precision training with `GradScaler`: scaled gradients, skipped steps, saved state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.virtual_gpus import gradient

pytestmark = pytest.mark.usefixtures("two_gpus")

GPU = torch.device("cuda:0")
Optimiser = Callable[[Any], torch.optim.Optimizer]
OPTIMISERS: dict[str, Optimiser] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    # Without momentum, whose buffer PyTorch leaves unset when the first fused step is skipped.
    "sgd fused": lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adam for each": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    "adam fused": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "adamw one by one": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False),
}


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def _forward_by_hand(model: nn.Sequential, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Run the network with autocast's casts written out."""
    first: Any = model[0]
    last: Any = model[2]
    hidden = nn.functional.linear(x.half(), first.weight.half(), first.bias.half()).relu()
    scores = nn.functional.linear(hidden, last.weight.half(), last.bias.half())
    return nn.functional.cross_entropy(scores.float(), labels)


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_training_loop_equals_one_written_by_hand(kind: str) -> None:
    by_hand = _network()
    model = copy.deepcopy(by_hand).cuda()
    x, labels = torch.randn(6, 4), torch.randint(0, 3, (6,))
    steppers = OPTIMISERS[kind](by_hand.parameters()), OPTIMISERS[kind](model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    for _ in range(4):
        for stepper in steppers:
            stepper.zero_grad()
        (_forward_by_hand(by_hand, x, labels) * 1024.0).backward()
        for parameter in by_hand.parameters():
            assert parameter.grad is not None
            parameter.grad /= 1024.0
        nn.utils.clip_grad_norm_(by_hand.parameters(), 0.5)
        steppers[0].step()
        with torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(x.cuda()), labels.cuda())
        scaler.scale(loss).backward()
        scaler.unscale_(steppers[1])
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(steppers[1])
        scaler.update()
    for expected, got in zip(by_hand.parameters(), model.parameters(), strict=True):
        assert (got.device, got.dtype) == (GPU, torch.float32)
        torch.testing.assert_close(got.detach().cpu(), expected.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_with_an_overflow_is_skipped_and_the_scale_halved(kind: str, bad: float) -> None:
    model = _network().cuda()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    stepper = OPTIMISERS[kind](model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=16.0, growth_interval=2)
    for value, expected_scale in ((bad, 8.0), (1.0, 8.0), (1.0, 16.0)):
        stepper.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4, device="cuda")).float().sum() * value
        scaler.scale(loss).backward()
        scaler.step(stepper)
        scaler.update()
        moved = any(
            not torch.equal(parameter, other) for parameter, other in zip(before, model.parameters(), strict=True)
        )
        assert moved is (value == 1.0)
        assert scaler.get_scale() == expected_scale


def test_scaled_values_are_on_the_device_and_state_can_be_saved() -> None:
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaled = scaler.scale([torch.ones(2, device="cuda"), torch.ones(2, device="cuda:1")])
    assert [str(tensor.device) for tensor in scaled] == ["cuda:0", "cuda:1"]
    assert scaled[1].tolist() == [4.0, 4.0]
    state = scaler.state_dict()
    assert (state["scale"], state["growth_interval"], state["_growth_tracker"]) == (4.0, 2000, 0)
    other = torch.amp.GradScaler("cuda")
    other.load_state_dict(state)
    assert other.get_scale() == 4.0


def test_unscaling_twice_is_an_error_and_half_gradients_cannot_be_unscaled() -> None:
    model = _network().cuda()
    stepper = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(model(torch.ones(1, 4, device="cuda")).sum()).backward()
    scaler.unscale_(stepper)
    with pytest.raises(RuntimeError, match="unscale_\\(\\) has already been called on this optimizer"):
        scaler.unscale_(stepper)
    half = _network().cuda().half()
    stepper = torch.optim.SGD(half.parameters(), lr=0.1)
    scaler.scale(half(torch.ones(1, 4, device="cuda").half()).sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(stepper)


def test_a_disabled_scaler_does_nothing_and_the_old_spelling_warns() -> None:
    x = torch.ones(1, device="cuda")
    assert torch.amp.GradScaler("cuda", enabled=False).scale(x) is x
    with pytest.warns(FutureWarning, match="`torch.cuda.amp.GradScaler"):
        old = torch.cuda.amp.GradScaler(init_scale=2.0)
    assert old.scale(x).item() == 2.0


def test_gradients_on_two_gpus_are_unscaled_each_on_its_own() -> None:
    first, second = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")
    stepper = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=1.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    hidden = first(torch.ones(1, 2, device="cuda:0"))
    scaler.scale(second(hidden.to("cuda:1")).sum()).backward()
    scaler.unscale_(stepper)
    assert gradient(second.bias).tolist() == [1.0, 1.0]
    torch.testing.assert_close(gradient(first.bias).cpu(), second.weight.detach().cpu().sum(0))
    scaler.step(stepper)
    scaler.update()

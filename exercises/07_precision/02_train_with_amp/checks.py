"""Mixed precision seen in the trace, and training that agrees with float32 training that skips the same steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpututor.checks import Check, Finding, Machine, Run, parity, placement, precision, structure, syncs, unmodified

LARGEST = torch.finfo(torch.float16).max
FIRST_SCALE = 65536.0
CLIP_EPSILON = 1e-6
"""Number that torch.nn.utils.clip_grad_norm_ adds to the norm before it divides by it."""
State = dict[str, torch.Tensor]


def trained(
    model: State, batches: torch.Tensor, targets: torch.Tensor, weight: float, learning_rate: float, max_norm: float
) -> tuple[list[torch.Tensor], list[torch.Tensor], State, float]:
    """Return losses, norms, weights and scale: the chain rule written out, and a step skipped on an overflow."""
    first, shift, second, offset = (model[name].clone() for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    losses, norms, scale = [], [], FIRST_SCALE
    for batch, target in zip(batches, targets, strict=True):
        hidden = torch.tanh(batch @ first.T + shift)
        error = hidden @ second.T + offset - target
        losses.append(weight * error.square().mean())
        slope = 2 * weight * error / error.numel()
        inner = slope @ second * (1 - hidden.square())
        steps = (inner.T @ batch, inner.sum(dim=0), slope.T @ hidden, slope.sum(dim=0))
        if max(float(part.abs().max()) for part in (slope, *steps)) * scale > LARGEST:
            norms.append(slope.new_tensor(torch.inf))
            scale /= 2
            continue
        norm = torch.sqrt(sum((part.square().sum() for part in steps), slope.new_zeros(())))
        norms.append(norm)
        factor = learning_rate * min(1.0, max_norm / (float(norm) + CLIP_EPSILON))
        for value, part in zip((first, shift, second, offset), steps, strict=True):
            value -= factor * part
    return losses, norms, {"0.weight": first, "0.bias": shift, "2.weight": second, "2.bias": offset}, scale


def reference(model: State, **rest: Any) -> dict[str, Any]:
    """The result of the task, with the model of the last step."""
    losses, norms, state, scale = trained(model, **rest)
    hidden, features = model["0.weight"].shape
    network = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1)).to(state["0.bias"].dtype)
    network.load_state_dict(state)
    return {"losses": torch.stack(losses), "norms": torch.stack(norms), "model": network, "scale": scale}


def find_scale(run: Run) -> Finding | None:
    """Find a call whose scale does not match the number of skipped steps."""
    for call in run.calls:
        scale = trained(**call.drawn)[-1]
        if call.output["scale"] != scale:
            got = f"result['scale'] is {call.output['scale']}{run.which(call)}"
            return Finding(f"{FIRST_SCALE:g}, halved once for each skipped step: {scale:g}", got, run.line_of(call))
    return None


def scale_sentence(machine: Machine) -> str:
    return "The scale was halved for each skipped step"


checks = [
    structure(
        reference,
        why="The weights stay float32: an update is often smaller than float16 can add to a weight.",
        advice="Leave the model in float32, stack the losses and the norms, and take scaler.get_scale() at the end.",
    ),
    placement(
        {"losses": "device", "norms": "device", "model": "device", "scale": None},
        advice="Collect tensors on the device and stack them at the end.",
    ),
    precision(
        {"aten::*mm": "float16"},
        why="Products in float32 leave the matrix units idle.",
        advice="Autocast has to cover the model's call and the loss, in float16.",
    ),
    syncs(
        at_most=lambda drawn, machine: len(drawn["batches"]) + 1,
        why="scaler.step() must check for an inf once per step. No other check is necessary.",
        advice="Keep losses and norms on the device; do not test or print them in the loop.",
    ),
    parity(
        reference,
        inside=torch.float16,
        why="Clipping scaled gradients leaves almost nothing of them. Without scaling, small gradients vanish. After an"
        " overflow, the step must be skipped.",
        advice="Scale, backward, unscale_, clip, scaler.step, scaler.update: each once a step, in this order.",
    ),
    Check(
        "scale",
        scale_sentence,
        find_scale,
        needs=("structure",),
        why="If an overflow does not lower the scale, every later step is skipped, too.",
        advice="Call scaler.update() after each scaler.step(), and scaler.get_scale() after the last one.",
    ),
    unmodified(may_change=("model",)),
]

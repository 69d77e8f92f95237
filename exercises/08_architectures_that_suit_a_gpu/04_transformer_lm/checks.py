"""The right scores, positions that move with the model, and no look into the future."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpututor.checks import launches, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Call, Check, Finding, Run
from gpututor.protocol.values import ObservedModule, ObservedTensor

LONGEST = 32
"""Positions in the table."""
SAME = 1e-3
"""Largest difference between scores of equal beginnings, relative to their size."""


def reference(weights: dict[str, torch.Tensor], tokens: torch.Tensor, heads: int) -> dict[str, Any]:
    """Both layers by their equations. Position p of a text sees positions 0 to p."""
    width, steps = weights["embed.weight"].shape[1], tokens.shape[1]
    dtype = weights["head.weight"].dtype
    place, column = torch.arange(steps, dtype=dtype).unsqueeze(1), torch.arange(width)
    angle = place * 10000.0 ** (-(column - column % 2).to(dtype) / width)
    x = weights["embed.weight"][tokens] + torch.where(column % 2 == 0, angle.sin(), angle.cos())
    hidden_future = torch.arange(steps).unsqueeze(0) > torch.arange(steps).unsqueeze(1)
    for number in (0, 1):
        layer = {name.split(".", 3)[3]: part for name, part in weights.items() if f"layers.{number}." in name}
        inside = functional.linear(x, layer["self_attn.in_proj_weight"], layer["self_attn.in_proj_bias"])
        query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in inside.chunk(3, dim=2))
        agreement = query @ key.mT / query.shape[-1] ** 0.5
        seen = agreement.masked_fill(hidden_future, -torch.inf).softmax(dim=-1) @ value
        seen = seen.transpose(1, 2).flatten(2)
        x = x + functional.linear(seen, layer["self_attn.out_proj.weight"], layer["self_attn.out_proj.bias"])
        x = functional.layer_norm(x, (width,), layer["norm1.weight"], layer["norm1.bias"])
        between = functional.linear(x, layer["linear1.weight"], layer["linear1.bias"]).relu()
        x = x + functional.linear(between, layer["linear2.weight"], layer["linear2.bias"])
        x = functional.layer_norm(x, (width,), layer["norm2.weight"], layer["norm2.bias"])
    return {
        "model": model_of(weights, heads),
        "scores": functional.linear(x, weights["head.weight"], weights["head.bias"]),
    }


def model_of(weights: dict[str, torch.Tensor], heads: int) -> nn.Module:
    """The parts that have weights, by the names of the task."""
    vocabulary, width = weights["embed.weight"].shape
    hidden = len(weights["encoder.layers.0.linear1.bias"])
    layer = nn.TransformerEncoderLayer(width, heads, hidden, batch_first=True)
    parts = {"embed": nn.Embedding(vocabulary, width), "encoder": nn.TransformerEncoder(layer, 2)}
    model = nn.ModuleDict({**parts, "head": nn.Linear(width, vocabulary)}).to(weights["head.weight"].dtype)
    model.load_state_dict(weights)
    return model


def tensors_to_move(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Return how many copies weights, buffers and tokens need."""
    return 1, len(drawn["weights"]) + len(drawn["buffers"]) + 1


def with_buffers(check: Check) -> Check:
    """Return a check whose amounts also see the names of the model's buffers: positions, and perhaps a mask."""

    def find(run: Run) -> Finding | None:
        calls = (replace(call, drawn={**call.drawn, "buffers": _buffers(call)}) for call in run.calls)
        return check.find(replace(run, calls=tuple(calls)))

    return replace(check, find=find)


def _buffers(call: Call) -> list[str]:
    model = call.output["model"]
    return list(model.buffers) if isinstance(model, ObservedModule) else []


def buffer_missing(run: Run) -> Finding | None:
    for call in run.calls:
        model, width = call.output["model"], call.drawn["weights"]["embed.weight"].shape[1]
        wanted = f"a module with a buffer 'positions' of shape {(LONGEST, width)}"
        if not isinstance(model, ObservedModule):
            return Finding(wanted, "no module", run.line_of(call))
        positions = model.buffers.get("positions")
        if positions is None:
            names = ", ".join(model.buffers) or "none"
            return Finding(wanted, f"buffers: {names}{run.which(call)}", run.line_of(call))
        if tuple(positions.fact.shape) != (LONGEST, width):
            return Finding(wanted, f"shape {tuple(positions.fact.shape)}{run.which(call)}", run.line_of(call))
    return None


def leak_found(run: Run) -> Finding | None:
    """The first two texts of a batch begin with the same tokens: up to there their scores have to agree."""
    for call in run.calls:
        shared = int(call.drawn["tokens"].shape[1]) // 2
        if len(call.drawn["tokens"]) < 2:
            continue
        first, second = call.output["scores"].values[:2, :shared].double()
        apart = (first - second).abs().amax(dim=1) > SAME * first.square().mean().sqrt()
        if bool(apart.any()):
            return Finding(
                expected=f"the same scores at positions 0 to {shared - 1} of two texts that differ after them",
                got=f"other scores at position {int(apart.nonzero()[0])}{run.which(call)}",
                line=run.line_of(call),
            )
    return None


def training_found(run: Run) -> Finding | None:
    for call in run.calls:
        if isinstance(call.output["model"], ObservedModule) and call.output["model"].training:
            got = f"a model in training mode{run.which(call)}"
            return Finding("a model in evaluation mode", got, run.line_of(call))
    return None


def graph_found(run: Run) -> Finding | None:
    for call in run.calls:
        scores = call.output["scores"]
        if isinstance(scores, ObservedTensor) and scores.fact.requires_grad:
            return Finding(
                expected="scores without an autograd graph",
                got=f"scores that need gradients{run.which(call)}",
                line=run.line_of(call),
            )
    return None


checks = [
    structure(
        reference,
        advice="The state dict has the names of the weights and no others: positions are computed, not learned.",
    ),
    placement(
        outputs="device",
        why="Embeddings and positions are added, so they have to be in one memory.",
        advice="register_buffer makes positions a part of the model, and model.to(device) moves all of it.",
    ),
    Check(
        "buffer",
        lambda _: "The table of positions is a buffer of the model",
        buffer_missing,
        ("structure",),
        "A plain attribute stays behind when the model moves, and has to be copied again in each forward pass.",
        'In __init__: self.register_buffer("positions", table, persistent=False).',
    ),
    syncs(
        at_most=0,
        why="Given a mask alone, the encoder compares it with a causal one, and the host waits for the answer.",
        advice="Pass is_causal=True with the mask, and read no value of the device in forward().",
    ),
    with_buffers(
        transfers(
            to_device=tensors_to_move,
            to_host=0,
            why="Weights, buffers and tokens cross once. Every other copy is repeated in each forward pass.",
            advice="Nothing that forward() makes should begin on the CPU. Load, then move the model, once.",
        )
    ),
    launches(
        by_name={"aten::*mm": (5, 40)},
        why="All positions go through the layers at once. If fewer products run on the device, the CPU did the work.",
        advice="Call the model once, after model.to(device), with the tokens that you moved.",
        on=lambda machine: machine.virtual and machine.device != "cpu",
    ),
    Check(
        "trained",
        lambda _: "The model is in evaluation mode",
        training_found,
        ("structure",),
        "In training mode the layers run other code, apply dropout, and trust is_causal without checking the mask.",
        "Call model.eval() before you score.",
    ),
    Check(
        "no_leak",
        lambda _: "No position sees what comes after it",
        leak_found,
        ("structure",),
        "A model that sees the next token learns to copy it: its loss is tiny, but it cannot generate text.",
        "The mask has to hide position j > i from position i: -inf (True in a boolean mask) above the diagonal.",
    ),
    Check(
        "no_graph",
        lambda _: "The scores carry no autograd graph",
        graph_found,
        ("structure",),
        "A graph keeps what every layer computed in the device's memory for a backward pass that never comes.",
        "Call the model inside `with torch.inference_mode():` or `with torch.no_grad():`.",
    ),
    parity(
        reference,
        advice="Check that positions are added, sin and cos in turn, and that the weights are loaded.",
    ),
]

"""The loss of each target token, from one pass over both sides and three masks made on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import launches, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Check, Finding, Run

PAD = 0
Weights = dict[str, torch.Tensor]


def reference(weights: Weights, heads: int, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sentence by sentence, without padding, and target token by target token."""
    losses = torch.zeros(len(targets), targets.shape[1] - 1, dtype=weights["head.weight"].dtype)
    for text, (source, target) in enumerate(zip(sources, targets, strict=True)):
        memory = encoded(weights, heads, source[source != PAD])
        written = target[target != PAD]
        for place in range(1, len(written)):
            scores = next_word(weights, heads, memory, written[:place])
            losses[text, place - 1] = functional.cross_entropy(scores, written[place])
    return losses


def embedded(weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
    return weights["tokens.weight"][tokens] + weights["places.weight"][: len(tokens)]


def encoded(weights: Weights, heads: int, source: torch.Tensor) -> torch.Tensor:
    """The encoder's result for a sentence."""
    layer = part(weights, "transformer.encoder.layers.0.")
    x = embedded(weights, source)
    x = norm(layer, "norm1", x + attended(part(layer, "self_attn."), heads, x, x))
    x = norm(layer, "norm2", x + between(layer, x))
    return norm(weights, "transformer.encoder.norm", x)


def next_word(weights: Weights, heads: int, memory: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """Scores of the word after those that are written."""
    layer = part(weights, "transformer.decoder.layers.0.")
    x = embedded(weights, written)
    last = x[-1:]
    last = norm(layer, "norm1", last + attended(part(layer, "self_attn."), heads, last, x))
    last = norm(layer, "norm2", last + attended(part(layer, "multihead_attn."), heads, last, memory))
    last = norm(layer, "norm3", last + between(layer, last))
    last = norm(weights, "transformer.decoder.norm", last)
    return functional.linear(last[0], weights["head.weight"], weights["head.bias"])


def part(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


def norm(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])


def between(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    inner = functional.linear(x, weights["linear1.weight"], weights["linear1.bias"]).relu()
    return functional.linear(inner, weights["linear2.weight"], weights["linear2.bias"])


def attended(weights: Weights, heads: int, asking: torch.Tensor, offered: torch.Tensor) -> torch.Tensor:
    """Attention of vectors (m, width) to vectors (n, width), all visible."""
    into, shift = weights["in_proj_weight"].chunk(3), weights["in_proj_bias"].chunk(3)
    query, key, value = (
        functional.linear(x, matrix, bias).unflatten(1, (heads, -1))
        for x, matrix, bias in zip((asking, offered, offered), into, shift, strict=True)
    )
    shares = (torch.einsum("mhk,nhk->hmn", query, key) / key.shape[-1] ** 0.5).softmax(dim=-1)
    mixed = torch.einsum("hmn,nhk->mhk", shares, value).flatten(1)
    return functional.linear(mixed, weights["out_proj.weight"], weights["out_proj.bias"])


def find_no_graph(run: Run) -> Finding | None:
    for call in run.calls:
        if not call.output.fact.requires_grad:
            got = f"losses without a graph{run.which(call)}"
            return Finding("losses on which backward() can be called", got, run.line_of(call))
    return None


def modelled(machine: Any) -> bool:
    return bool(machine.virtual) and machine.device != "cpu"


checks = [
    structure(
        reference,
        advice="One loss for each target token but the first: (n, t - 1).",
    ),
    placement(
        "device",
        why="Training continues with backward() on the GPU.",
        advice="Move both sides first. Everything made from them is then on the GPU.",
    ),
    parity(
        reference,
        why="Padding is not language, and a decoder that sees the next word learns only to copy it.",
        advice="Hide the sources' padding twice, from encoder and decoder, and each target's future once. The loss of a"
        " label PAD is 0: see ignore_index.",
    ),
    syncs(
        at_most=0,
        why="If it gets only a mask, the decoder checks whether it is causal, and the host waits for the answer.",
        advice="Pass tgt_is_causal=True with the mask, and read no value of the GPU.",
    ),
    transfers(
        to_device=2,
        to_host=0,
        why="Only two tensors of tokens need to cross the bus. Masks, inputs and labels come from them on the GPU.",
        advice="Move sources and targets once, then slice and compare there. Make the causal mask with device=….",
    ),
    launches(
        (10, 120),
        why="The right words are known, so all positions of the decoder can be computed at once.",
        advice="One call of the transformer with targets[:, :-1]. No loop over positions or sentences.",
        on=modelled,
    ),
    Check(
        "graph",
        lambda _: "The losses have an autograd graph",
        find_no_graph,
        ("structure",),
        "Training needs backward() on these losses.",
        "Leave out no_grad() and detach().",
    ),
]

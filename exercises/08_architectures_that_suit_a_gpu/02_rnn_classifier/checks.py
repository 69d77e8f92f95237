"""The right scores from one pass over the whole batch, with little on the bus."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import launches, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Check, Finding, Run
from gpututor.protocol.values import ObservedTensor


def reference(weights: dict[str, torch.Tensor], tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Each text alone, without padding, one step of the RNN after another."""
    scores = []
    for text, length in zip(tokens, lengths.tolist(), strict=True):
        state = torch.zeros(weights["rnn.weight_hh_l0"].shape[0], dtype=weights["head.weight"].dtype)
        for token in text[:length]:
            from_input = weights["rnn.weight_ih_l0"] @ weights["embed.weight"][token] + weights["rnn.bias_ih_l0"]
            from_state = weights["rnn.weight_hh_l0"] @ state + weights["rnn.bias_hh_l0"]
            state = (from_input + from_state).tanh()
        scores.append(weights["head.weight"] @ state + weights["head.bias"])
    return torch.stack(scores)


def bytes_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Bytes of the model and the texts, and of a few more numbers for each text: lengths, order and batch sizes."""
    texts = int(drawn["tokens"].nbytes)
    least = sum(int(tensor.nbytes) for tensor in drawn["weights"].values()) + texts
    return least, least + texts + 16 * int(drawn["lengths"].nbytes)


def launches_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """cuDNN's RNN is one launch for all steps; a loop over the steps is 3 to 6 for each, for the whole batch."""
    return 4, 20 + 8 * int(drawn["tokens"].shape[1])


def graph_found(run: Run) -> Finding | None:
    for call in run.calls:
        if isinstance(call.output, ObservedTensor) and call.output.fact.requires_grad:
            return Finding(
                expected="scores without an autograd graph",
                got=f"scores that need gradients{run.which(call)}",
                line=run.line_of(call),
            )
    return None


checks = [
    structure(
        reference,
        advice="One row of scores for each text: take one step of the outputs for each, then the head.",
    ),
    placement(
        outputs="device",
        why="The next step, a softmax or an argmax, runs where the scores are.",
        advice="Move the model, the tokens and the lengths to `device`; the scores are then computed there.",
    ),
    syncs(
        at_most=0,
        why="A length that is read from the device in a loop is one wait per text.",
        advice="Pick the last real steps of all texts with one index: outputs[texts, lengths - 1].",
    ),
    transfers(
        to_device=(1, 9),
        bytes_to_device=bytes_needed,
        to_host=0,
        why="Seven tensors of the model, tokens and lengths have to cross. One-hot vectors are many times as large.",
        advice="Load, then move the model, once. Look tokens up on the device, and make index tensors there.",
    ),
    launches(
        launches_needed,
        by_name={"aten::_cudnn_rnn": (0, 1)},
        why="A step of all texts needs a few launches. More mean a loop over texts; fewer mean work on the CPU.",
        advice="Call the model once, on the device, with the whole batch. The padding costs little.",
        on=lambda machine: machine.virtual and machine.device != "cpu",
    ),
    Check(
        "no_graph",
        lambda _: "The scores carry no autograd graph",
        graph_found,
        ("structure",),
        "A graph keeps the state of every step in the device's memory for a backward pass that never comes.",
        "Call the model inside `with torch.inference_mode():` or `with torch.no_grad():`.",
    ),
    parity(
        reference,
        advice="Check which step you take: lengths - 1, different for each text, not the last column.",
    ),
]

"""The right tokens; nothing in the loop leaves the device, and no token is read twice."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import launches, memory, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Check, Finding, Run


def reference(weights: dict[str, torch.Tensor], prompts: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The LSTM's equations, token by token, one text after another."""
    written = []
    for text, prompt in enumerate(prompts.tolist()):
        state = torch.zeros(2, weights["head.weight"].shape[1], dtype=noise.dtype)
        for token in prompt[:-1]:
            state = after(weights, state, token)
        tokens = prompt[-1:]
        for step_noise in noise[:, text]:
            state = after(weights, state, tokens[-1])
            scores = weights["head.weight"] @ state[0] + weights["head.bias"]
            tokens.append(int((scores + step_noise).argmax()))
        written.append(tokens[1:])
    return torch.tensor(written)


def after(weights: dict[str, torch.Tensor], state: torch.Tensor, token: int) -> torch.Tensor:
    """Hidden and cell state (2, hidden) after one more token."""
    hidden, cell = state
    from_input = weights["lstm.weight_ih_l0"] @ weights["embed.weight"][token] + weights["lstm.bias_ih_l0"]
    from_state = weights["lstm.weight_hh_l0"] @ hidden + weights["lstm.bias_hh_l0"]
    enter, forget, new, leave = (from_input + from_state).chunk(4)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return torch.stack([leave.sigmoid() * cell.tanh(), cell])


def tokens_read(drawn: dict[str, Any]) -> int:
    """Tokens that each text reads: the prompt, and all written tokens but the last."""
    return int(drawn["prompts"].shape[1] + drawn["noise"].shape[0] - 1)


def launches_needed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """An LSTM is one launch, or 13 for each token if a loop does its steps; the rest of a token is 5 more."""
    return 1, 20 + 14 * tokens_read(drawn) + 8 * int(drawn["noise"].shape[0])


def work_found(run: Run) -> Finding | None:
    """Compare the operations of all products on the device with those that read each token once."""
    for call in run.calls:
        weights, texts = call.drawn["weights"], int(call.drawn["prompts"].shape[0])
        cell = sum(int(weights[f"lstm.weight_{part}_l0"].numel()) for part in ("ih", "hh"))
        head = int(weights["head.weight"].numel())
        read = tokens_read(call.drawn)
        least = 2 * texts * (read * cell + int(call.drawn["noise"].shape[0]) * head)
        most = 2 * texts * read * (cell + head)
        events = [event for event in call.trace if event.flops and event.device != "cpu"]
        done = sum(event.flops for event in events)
        if not 0.9 * least <= done <= 1.1 * most:
            return Finding(
                expected=f"{least:,} to {most:,} operations in products on the device: each token read once",
                got=f"{done:,.0f} operations{run.which(call)}",
                line=max(events, key=lambda event: event.flops).line if events else run.line_of(call),
            )
    return None


def bytes_needed(drawn: dict[str, Any], machine: Any) -> int:
    """Bytes of the model in blocks of 512, a pass over the prompts, a step's tensors, and two tensors for each step.

    A graph keeps four or more tensors for each step.
    """
    weights = sum(512 * (int(tensor.nbytes) // 512 + 1) for tensor in drawn["weights"].values())
    hidden = int(drawn["weights"]["head.weight"].shape[1])
    pieces = 16 + 2 * int(drawn["noise"].shape[0])
    return weights + 16 * int(drawn["prompts"].numel()) * hidden + 512 * pieces


def modelled(machine: Any) -> bool:
    """Return True on the virtual GPU: on a real one cuDNN launches other kernels, and takes memory of its own."""
    return bool(machine.virtual) and machine.device != "cpu"


checks = [
    structure(
        reference,
        advice="The tokens that were written, without the prompts: one row for each text, one column for each step.",
    ),
    placement(
        outputs="cpu",
        why="The host turns the tokens into text when all of them have arrived.",
        advice="Copy all tokens to the CPU together, at the end.",
    ),
    syncs(
        at_most=1,
        why="A wait in each step leaves the device idle while the host gets the next step ready.",
        advice="Feed the token back as a tensor: argmax(dim=1, keepdim=True) has the shape of a batch of one step.",
    ),
    transfers(
        to_device=(1, 10),
        to_host=1,
        why="Only the model's seven tensors and the prompts go to the device, and only finished tokens come back.",
        advice="Load, then move the model, once. Token and state stay there; join the tokens there, and copy once.",
    ),
    launches(
        launches_needed,
        by_name={"aten::_cudnn_rnn": lambda drawn, machine: (0, tokens_read(drawn))},
        why="A step of all texts needs a few launches. More launches mean a loop over texts.",
        advice="Call the LSTM once for the prompts of all texts, then once for each new token.",
        on=modelled,
    ),
    Check(
        "read_once",
        lambda _: "Each token is read once, on the device",
        work_found,
        ("structure",),
        "The state sums up the tokens read so far. More work means reading tokens again; less means work on the CPU.",
        "Move model and prompts; pass the state that the LSTM returned together with the newest token only.",
        modelled,
    ),
    memory(
        peak=bytes_needed,
        why="A graph keeps every step's tensors for a backward pass that never comes.",
        advice="Write the loop inside `with torch.inference_mode():` or `with torch.no_grad():`.",
        on=modelled,
    ),
    parity(
        reference,
        advice="Carry the state from call to call, begin with the prompts, and add noise[s] before the argmax.",
    ),
]

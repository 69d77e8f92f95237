"""The same result, within budgets of time and memory, and without a wait in each step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from gpututor.checks import Wanted, files, launches, memory, speed, syncs
from gpututor.protocol.values import ObservedTensor

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 48, 32, 4, 2, 64
RATE, BETAS, EPS, LONGEST_GRADIENT = 0.01, (0.9, 0.99), 1e-3, 0.5
DECAY = 0.8
MOST_WAITS = 2
"""Waits between the first and the last backward pass: the capture of a CUDA graph needs one."""
State = dict[str, torch.Tensor]


def make_inputs(seed: int, rows: int) -> torch.Tensor:
    """Rows of words, as the script makes them."""
    chance = torch.Generator().manual_seed(seed)
    first = torch.randint(WORDS, (rows, 1), generator=chance)
    step = torch.randint(1, 5, (rows, 1), generator=chance)
    text = (first + step * torch.arange(LENGTH + 1)) % WORDS
    noise = torch.randint(WORDS, text.shape, generator=chance)
    noisy = torch.rand(text.shape, generator=chance, dtype=torch.float32) < 0.1
    return torch.where(noisy, noise, text)


def initial_weights(seed: int) -> State:
    """The weights that the script begins with, in float64, in the order of its modules."""
    kind = {"dtype": torch.float32}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: dict[str, torch.nn.Module] = {"words": torch.nn.Embedding(WORDS, WIDTH, **kind)}
        for layer in range(LAYERS):
            block = f"blocks.{layer}"
            layers[f"{block}.first"] = torch.nn.LayerNorm(WIDTH, **kind)
            layers[f"{block}.second"] = torch.nn.LayerNorm(WIDTH, **kind)
            layers[f"{block}.attention.project"] = torch.nn.Linear(WIDTH, 3 * WIDTH, **kind)
            layers[f"{block}.attention.out"] = torch.nn.Linear(WIDTH, WIDTH, **kind)
            layers[f"{block}.up"] = torch.nn.Linear(WIDTH, 2 * WIDTH, **kind)
            layers[f"{block}.down"] = torch.nn.Linear(2 * WIDTH, WIDTH, **kind)
        layers["norm"] = torch.nn.LayerNorm(WIDTH, **kind)
        layers["head"] = torch.nn.Linear(WIDTH, WORDS, **kind)
    return {
        f"{name}.{part}": value.detach().double()
        for name, layer in layers.items()
        for part, value in layer.named_parameters()
    }


def linear(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def normalized(x: torch.Tensor, state: State, name: str) -> torch.Tensor:
    return F.layer_norm(x, (WIDTH,), state[f"{name}.weight"], state[f"{name}.bias"])


def positions() -> torch.Tensor:
    """The table of positions: computed in float32, as the script does."""
    rate = 100 ** (-torch.arange(0, WIDTH, 2).to(torch.float32) / WIDTH)
    angle = torch.arange(LENGTH).unsqueeze(1).to(torch.float32) * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1).double()


def losses_of(text: torch.Tensor, state: State) -> torch.Tensor:
    """The mean cross-entropy of each row."""
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    size = WIDTH // HEADS
    x = state["words.weight"][text[:, :-1]] + positions()
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        parts = linear(normalized(x, state, f"{block}.first"), state, f"{block}.attention.project").chunk(3, dim=-1)
        queries, keys, values = (part.unflatten(-1, (HEADS, size)).transpose(1, 2) for part in parts)
        scores = (queries @ keys.transpose(-1, -2) / math.sqrt(size)).masked_fill(later, -math.inf)
        heads = (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)
        x = x + linear(heads, state, f"{block}.attention.out")
        inner = F.gelu(linear(normalized(x, state, f"{block}.second"), state, f"{block}.up"))
        x = x + linear(inner, state, f"{block}.down")
    scores = linear(normalized(x, state, "norm"), state, "head")
    return F.cross_entropy(scores.transpose(1, 2), text[:, 1:], reduction="none").mean(-1)


def reference(argv: list[str]) -> dict[str, Any]:
    """The content of result.pt: everything in float64, rounded at the end."""
    seed, steps, batch = int(argv[1]), int(argv[3]), int(argv[5])
    state = initial_weights(seed)
    average = dict(state)
    means = {name: torch.zeros_like(value) for name, value in state.items()}
    squares = {name: torch.zeros_like(value) for name, value in state.items()}
    losses = []
    for step, rows in enumerate(make_inputs(seed, steps * batch).split(batch), 1):
        state = {name: value.detach().requires_grad_() for name, value in state.items()}
        loss = losses_of(rows, state).mean()
        gradients = torch.autograd.grad(loss, list(state.values()))
        length = float(torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt())
        factor = min(1.0, LONGEST_GRADIENT / length)
        for name, gradient in zip(list(state), gradients, strict=True):
            means[name] = BETAS[0] * means[name] + (1 - BETAS[0]) * factor * gradient
            squares[name] = BETAS[1] * squares[name] + (1 - BETAS[1]) * (factor * gradient).square()
            mean, square = means[name] / (1 - BETAS[0] ** step), squares[name] / (1 - BETAS[1] ** step)
            state[name] = state[name].detach() - RATE * mean / (square.sqrt() + EPS)
            average[name] = DECAY * average[name] + (1 - DECAY) * state[name]
        losses.append(loss.detach())
    return {
        "losses": torch.stack(losses).float(),
        "average": {name: value.float() for name, value in average.items()},
        "validation": losses_of(make_inputs(seed + 1, 2 * batch), state).float(),
    }


def detached(content: Any, call: Any) -> str | None:
    """The problem if a tensor of the file still needs gradients."""
    tensors = [content["losses"], content["validation"], *content["average"].values()]
    needy = any(isinstance(part, ObservedTensor) and part.fact.requires_grad for part in tensors)
    return "it holds tensors that need gradients" if needy else None


checks = [
    files(
        {"result.pt": Wanted("torch", like=reference, devices="cpu", look=detached, times=10)},
        name="result",
        why="A program that is fast and wrong is useless.",
        advice="Change one thing at a time, and compare result.pt with the first script's.",
    )
    .with_points(4)
    .with_kind("values"),
    launches(
        by_name={"aten::*mm": lambda drawn, machine: (int(drawn["argv"][3]), None)},
        name="on_device",
        why="The exercise is about the GPU, so the GPU has to compute.",
        advice="Training belongs on the device that the script finds.",
    ),
    memory(
        peak_ratio=0.36,
        why="Wasted memory means a smaller batch, or a larger GPU.",
        advice="Look at the line that reached the peak: what is alive there, and what refers to it?",
    ).with_points(5),
    speed(
        1 / 4,
        compared_with="the script that you began with",
        why="Each fault takes part of the time. Without them, a step is little more than its launches.",
        advice="`gpututor trace` on your file: which line costs most now?",
    ).with_points(5),
    syncs(
        at_most=MOST_WAITS,
        loop_of="aten::*_backward*",
        why="A wait in each step leaves the GPU idle while the host prepares the next step.",
        advice="Keep losses on the device until training is over, and make no decision on a value there.",
    ),
]

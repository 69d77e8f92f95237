"""The run's losses, the best epoch's file, bytes without waits, half precision, and no old gradients or graphs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpututor.checks import (
    Check,
    Finding,
    Machine,
    Run,
    Wanted,
    files,
    launches,
    parity,
    placement,
    precision,
    structure,
    syncs,
    transfers,
    unmodified,
)
from gpututor.checks.bounds import describe_lines, line_with_most
from gpututor.checks.model import Call
from gpututor.trace.events import Event, Kind

State = dict[str, torch.Tensor]
TIMES = 1000
"""Multiple of float32's tolerance: bfloat16's tolerance, because float16 training adds up many rounding errors."""
NUMBER = 8
"""Bytes of a single number."""
BACKWARD = "aten::convolution_backward"
MARK = "backward pass on old gradients"
"""The range with which given.py marks a backward pass that begins with gradients."""


def network(weights: State) -> nn.Sequential:
    """The network of given.py, in the precision of its weights."""
    filters, channels, _, _ = weights["0.weight"].shape
    model = nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.BatchNorm2d(filters),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * filters, len(weights["5.bias"])),
    ).to(weights["0.weight"].dtype)
    model.load_state_dict(weights)
    return model


def augmented(x: torch.Tensor, epoch: int) -> torch.Tensor:
    x = x.roll(epoch, dims=3)
    return 1 - x if epoch % 2 else x


def epochs(
    weights: State,
    training: torch.Tensor,
    training_labels: torch.Tensor,
    validation: torch.Tensor,
    validation_labels: torch.Tensor,
    rates: list[float],
    batch_size: int,
) -> Iterator[tuple[torch.Tensor, State]]:
    """The validation loss and the state after each epoch, without half precision."""
    model = network(weights)
    kind = weights["0.weight"].dtype
    x, seen = training.to(kind) / 255, validation.to(kind) / 255
    for epoch, rate in enumerate(rates):
        model.train()
        for rows in range(0, len(x), batch_size):
            chosen = slice(rows, rows + batch_size)
            loss = functional.cross_entropy(model(augmented(x[chosen], epoch)), training_labels[chosen])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= rate * gradient
        model.eval()
        with torch.no_grad():
            loss = functional.cross_entropy(model(seen), validation_labels)
        yield loss, {name: tensor.clone() for name, tensor in model.state_dict().items()}


def reference(**drawn: Any) -> dict[str, Any]:
    losses = torch.stack([loss for loss, _ in epochs(**drawn)])
    return {"losses": losses, "best": int(losses.argmin())}


def best_state(**drawn: Any) -> State:
    """The state after the epoch with the smallest loss."""
    return min(epochs(**drawn), key=lambda pair: float(pair[0]))[1]


def best_epoch(run: Run) -> Finding | None:
    """Find a call whose best epoch is not the epoch of its smallest loss."""
    for call in run.calls:
        wanted = int(call.output["losses"].values.argmin())
        if call.output["best"] != wanted:
            return run.finding(call, f"{wanted}, the epoch with the smallest of your losses", f"{call.output['best']}")
    return None


def batches(drawn: dict[str, Any], machine: Machine) -> int:
    """Copies of pictures and labels, for all epochs."""
    sizes = (len(drawn["training"]), len(drawn["validation"]))
    return 2 * len(drawn["rates"]) * sum(-(-size // int(drawn["batch_size"])) for size in sizes)


def all_copies(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    return 1, batches(drawn, machine) + 2 * len(drawn["weights"]) + 4


def few_bytes(drawn: dict[str, Any], machine: Machine) -> tuple[int, int]:
    """Pictures as bytes and labels in each epoch, and the weights."""
    data = sum(drawn[name].nbytes for name in ("training", "training_labels", "validation", "validation_labels"))
    return 1, len(drawn["rates"]) * data + 2 * sum(tensor.nbytes for tensor in drawn["weights"].values()) + 256


def few_waits(drawn: dict[str, Any], machine: Machine) -> int:
    """Return the number of waits: one for each step's scaler, each epoch's loss and each saved tensor."""
    steps = -(-len(drawn["training"]) // int(drawn["batch_size"]))
    return len(drawn["rates"]) * (steps + 1 + len(drawn["weights"]))


def scaled_steps(drawn: dict[str, Any], machine: Machine) -> tuple[int, None]:
    """Return the least number of times that the scaler unscales gradients: once in each step."""
    return len(drawn["rates"]) * -(-len(drawn["training"]) // int(drawn["batch_size"])), None


def blocking(run: Run) -> Finding | None:
    """Find a call that waits for copies of batches. Copies of single numbers and of weights may block."""
    for call in run.calls:
        allowed = {tensor.nbytes for tensor in call.drawn["weights"].values()}
        copies = [event for event in call.trace if event.to_device and not event.asynchronous]
        data = [event for event in copies if event.size_bytes > NUMBER and event.size_bytes not in allowed]
        if data:
            got = f"{len(data)} for which the host waits, {describe_lines(data)}"
            return run.finding(call, "asynchronous copies of all batches", got, line_with_most(data))
    return None


def old_gradients(run: Run) -> Finding | None:
    """Find a backward pass that adds to gradients which nothing has set to zero since the pass before it."""
    for call in run.calls:
        cleared, old = False, []
        for event in call.trace:
            if event.name == BACKWARD:
                cleared = False
            elif event.kind is Kind.KERNEL:
                cleared |= "zero" in event.name or "fill" in event.name
            elif event.name == MARK and not cleared:
                old.append(event)
        if old:
            got = f"{len(old)} on the gradients of the step before"
            return run.finding(call, "backward passes that begin without gradients", got, line_with_most(old))
    return None


def validation_passes(call: Call) -> list[Event]:
    """The convolutions that no backward pass follows, in order."""
    passes = [event for event in call.trace if event.kind is Kind.KERNEL and "convolution" in event.name]
    following = [*passes[1:], None]
    pairs = zip(passes, following, strict=True)
    return [event for event, after in pairs if event.name != BACKWARD and (after is None or after.name != BACKWARD)]


def kept_graphs(run: Run) -> Finding | None:
    """Find a validation in which the second batch begins with more memory in use than the first."""
    for call in run.calls:
        pixels = int(call.drawn["batch_size"]) * call.drawn["validation"][0].nbytes
        for first, second in pairwise(validation_passes(call)):
            between = [event for event in call.trace if first.launched < event.launched <= second.launched]
            if any(event.name == BACKWARD for event in between):
                continue  # the next epoch
            change = sum(
                event.size_bytes if event.kind is Kind.ALLOCATE else -event.size_bytes
                for event in between
                if event.kind in (Kind.ALLOCATE, Kind.FREE)
            )
            if change > pixels:
                got = f"{change:,} bytes more on the device at the second batch than at the first"
                return run.finding(call, "a validation that keeps nothing but losses", got, second.line)
    return None


checks = [
    structure(
        reference,
        advice="A dict with a float32 tensor of one loss for each epoch, and a whole number.",
    ),
    placement({"losses": "cpu", "best": None}, advice="The losses are for the host: one number for each epoch."),
    parity(
        reference,
        inside=torch.bfloat16,  # float16 in each step, and the errors of all steps
        why="If training or validation breaks these rules, the wrong epoch looks best.",
        advice="Training: train(), augmented, the epoch's rate. Validation: eval(), unchanged pictures, their mean.",
    ),
    Check(
        "best",
        lambda _: "The best epoch has the smallest loss",
        best_epoch,
        needs=("structure",),
        why="The checkpoint and its number are what others use.",
        advice="Return the number of the epoch with the smallest of your losses; epochs count from 0.",
    ),
    files(
        {"best.pt": Wanted("torch", like=best_state, devices="cpu", times=TIMES)},
        name="file",
        why="A state dict holds the model's own tensors: the next epoch changes them.",
        advice="Copy the state to the CPU and save it when an epoch is the best so far.",
    ),
    transfers(
        to_device=all_copies,
        bytes_to_device=few_bytes,
        why="Pictures are bytes: as floats they take four times as long on the bus.",
        advice="Copy whole batches of bytes, once in each epoch, and convert them on the device: .float() after .to().",
    ),
    Check(
        "asynchronous",
        lambda _: "The host does not wait for copies of batches",
        blocking,
        why="While a batch is copied, the host can launch the work on it.",
        advice="pin_memory=True in the loaders, non_blocking=True at both copies.",
        on="gpu",
    ),
    syncs(
        at_most=few_waits,
        why="The scaler waits once a step. A loss that is read in each step is another wait.",
        advice="Add up the losses on the device, and read one number an epoch.",
    ),
    precision(
        {"aten::convolution_backward": "float16"},
        half_share=0.7,
        why="Half precision is what the matrix units of the GPU are made for.",
        advice="In training, the model's call and the loss belong under torch.autocast, with dtype=torch.float16.",
    ),
    launches(
        by_name={"aten::_amp_foreach_non_finite_check_and_unscale_": scaled_steps},
        name="scaler",
        why="Small gradients become zero in float16, unless the loss is scaled before the backward pass.",
        advice="scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update(): in each step.",
    ),
    Check(
        "gradients",
        lambda _: "Each backward pass begins without gradients",
        old_gradients,
        why="The scaler makes old gradients tiny. After an overflow they are infinite, and no step is taken again.",
        advice="optimizer.zero_grad() in each step.",
    ),
    Check(
        "graphs",
        lambda _: "Validation keeps no autograd graph",
        kept_graphs,
        why="A graph keeps the activations of all validation pictures until the loss of the epoch is read.",
        advice="Validate under torch.no_grad() or torch.inference_mode().",
    ),
    unmodified(may_change=("model",)),
]

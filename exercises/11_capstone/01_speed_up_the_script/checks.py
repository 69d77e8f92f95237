"""The same result in a ninth of the time, and a check for each of the ten faults."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch.nn import functional as F

from gpututor.checks import Call, Check, Finding, Run, Wanted, files, launches, speed, syncs
from gpututor.checks.bounds import describe_lines, describe_names, line_with_most
from gpututor.checks.launches import launches_of
from gpututor.protocol.values import ObservedTensor
from gpututor.trace.events import Event, Kind

CLASSES, LEARNING_RATE, MOMENTUM, LONGEST_GRADIENT = 10, 0.05, 0.9, 0.5
SCALAR_BYTES, SMALL_BYTES, FEW = 8, 256, 3
LARGEST_RESULT_BYTES = 16384
FEW_MORE_AT_FIRST = 8
"""Extra launches in the first step: SGD copies each gradient once."""


def make_inputs(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images in float64 and labels, as the script makes them."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    noise = torch.randn(count, 3, 8, 8, generator=chance, dtype=torch.float32)
    shift = labels.view(-1, 1, 1, 1).to(torch.float32) / 5
    return (noise + shift).double(), labels


def initial_weights(seed: int) -> dict[str, torch.Tensor]:
    """The weights that the script begins with, in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = {
            "0": torch.nn.Conv2d(3, 8, 3, padding=1, dtype=torch.float32),
            "2": torch.nn.Conv2d(8, 8, 3, padding=1, dtype=torch.float32),
            "6": torch.nn.Linear(128, CLASSES, dtype=torch.float32),
        }
    return {
        f"{number}.{name}": value.detach().double().requires_grad_()
        for number, layer in layers.items()
        for name, value in layer.named_parameters()
    }


def logits_of(images: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Output of the network for a batch."""
    x = F.conv2d(images, weights["0.weight"], weights["0.bias"], padding=1).relu()
    x = F.conv2d(x, weights["2.weight"], weights["2.bias"], padding=1).relu()
    return F.linear(F.avg_pool2d(x, 2).flatten(1), weights["6.weight"], weights["6.bias"])


def reference(argv: list[str]) -> dict[str, object]:
    """The expected result.pt: the training of the task, step by step in float64 on the CPU."""
    seed, steps, batch = (int(word) for word in argv[1::2])
    weights = initial_weights(seed)
    images, labels = make_inputs(seed, steps * batch)
    velocity = {name: torch.zeros_like(value) for name, value in weights.items()}
    average = {name: torch.zeros_like(value) for name, value in weights.items()}
    losses = []
    for step in range(steps):
        x = images[step * batch : (step + 1) * batch]
        rows = torch.arange(step * batch, (step + 1) * batch)
        known = rows % 8 != 7
        x = (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)
        importance = torch.linspace(0.5, 1.5, CLASSES, dtype=torch.float64)
        loss = F.cross_entropy(logits_of(x, weights)[known], labels[rows][known], weight=importance)
        gradients = torch.autograd.grad(loss, list(weights.values()))
        for (name, value), gradient in zip(weights.items(), gradients, strict=True):
            shortened = gradient * min(1.0, LONGEST_GRADIENT / float(gradient.norm()))
            velocity[name] = MOMENTUM * velocity[name] + shortened
            value.data -= LEARNING_RATE * velocity[name]
            average[name] += value.detach() / steps
        losses.append(loss.detach())
    images, labels = make_inputs(seed + 1, 3 * batch)
    contents = {
        "losses": torch.stack(losses),
        "mean loss": torch.stack(losses).mean(),
        "average": average,
        "validation": F.cross_entropy(logits_of(images, weights), labels, reduction="none").detach(),
    }
    return {
        name: {key: part.float() for key, part in value.items()} if isinstance(value, dict) else value.float()
        for name, value in contents.items()
    }


def detached(saved: dict[str, object], call: Call) -> str | None:
    """Return the fault if saved tensors still belong to a graph."""
    for name, part in saved.items():
        for tensor in part.values() if isinstance(part, dict) else (part,):
            if isinstance(tensor, ObservedTensor) and tensor.fact.requires_grad:
                return f"{name!r} still needs gradients: loading it brings requires_grad along"
    return None


Which = Callable[[Event], bool]


def fault(
    name: str,
    sentence: str,
    which: Which,
    allowed: Callable[[int], int],
    words: str,
    why: str,
    advice: str,
    another: Callable[[int], float] = lambda steps: float("inf"),
) -> Check:
    """Return a check that no line causes more than `allowed(steps)` of the events that `which` picks.

    `words` describes these events. Lines with more than `another(steps)` of them show another fault.
    """

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            most = allowed(_steps(call))
            line, times = _line_with_most((event for event in call.trace if which(event)), another(_steps(call)))
            if times > most:
                got = f"{times} {words}" + (f", at line {line}" if line else "")
                expected = f"no more than {most} {words} by one line" if most else f"no {words}"
                return Finding(expected, got + run.which(call), line)
        return None

    return Check(name, lambda _: sentence, find, (), why, advice, "gpu")


def _steps(call: Call) -> int:
    return int(call.drawn["argv"][3])


def _line_with_most(events: Iterable[Event], at_most: float) -> tuple[int | None, int]:
    lines = [(line, times) for line, times in Counter(event.line for event in events).items() if times <= at_most]
    return max(lines, key=lambda item: item[1], default=(None, 0))


def _few(steps: int) -> int:
    return FEW


def _waits_for_a_size(event: Event) -> bool:
    return event.kind is Kind.SYNCHRONISE and any(word in event.name for word in ("index", "nonzero", "mask"))


def _reads_a_number(event: Event) -> bool:
    return event.to_host and event.size_bytes <= SCALAR_BYTES


def updates_one_by_one(run: Run) -> Finding | None:
    """Find an update that launches kernels for each parameter; no other line's launches count."""
    lines = lines_of_updates(run.source)
    for call in run.calls:
        launched = [event for event in launches_of(call) if event.line in lines]
        most = 5 * _steps(call) + FEW_MORE_AT_FIRST
        if len(launched) > most:
            got = f"{len(launched)} launches, {describe_lines(launched)}: {describe_names(launched)}{run.which(call)}"
            return Finding(f"no more than {most} launches to update the weights", got, line_with_most(launched))
    return None


def lines_of_updates(source: str) -> set[int]:
    """Return the lines of all statements that use the learning rate or the momentum, or call an optimizer's `step`."""
    tree = ast.parse(source)
    known = _names_of_rates(tree)
    return {
        line
        for statement in ast.walk(tree)
        if isinstance(statement, ast.stmt) and not hasattr(statement, "body")
        if _has_rate(statement, known) or any(_is_step(part) for part in ast.walk(statement))
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def _names_of_rates(tree: ast.Module) -> set[str]:
    """Return the names that carry the learning rate or the momentum: constants, variables, parameters of functions."""
    functions = {node.name: node.args.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    bound = [pair for node in ast.walk(tree) for pair in _bindings(node, functions)]
    known: set[str] = set()
    while new := {name for name, value in bound if _has_rate(value, known)} - known:
        known |= new
    return known


def _bindings(node: ast.AST, functions: dict[str, list[ast.arg]]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a node binds, each with its value. A call's result carries no rate."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from ((target.id, value) for target, value in zip(targets, values, strict=False) if _is_name(target))
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if not any(isinstance(part, ast.Call) for part in ast.walk(value)):
                yield name, value
        case ast.Call(func=ast.Name(id=name), args=values, keywords=keywords) if name in functions:
            parameters = [parameter.arg for parameter in functions[name]]
            yield from zip(parameters, values, strict=False)
            yield from ((keyword.arg, keyword.value) for keyword in keywords if keyword.arg)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _is_step(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"


def _has_rate(node: ast.AST, known: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Constant) and part.value in (LEARNING_RATE, MOMENTUM))
        or (isinstance(part, ast.Name) and part.id in known)
        for part in ast.walk(node)
    )


def with_sentence(check: Check, sentence: str) -> Check:
    """Return the check with another sentence: two checks count launches."""
    return replace(check, sentence=lambda _: sentence)


checks = [
    files(
        {"result.pt": Wanted("torch", like=reference, devices="cpu", look=detached, times=4)},
        name="result",
        why="A fast script with a wrong result is useless.",
        advice="Change one thing at a time, and compare result.pt with the first script's.",
    )
    .with_points(4)
    .with_kind("values"),
    with_sentence(
        launches(
            by_name={"aten::*conv*backward*": lambda drawn, machine: (int(drawn["argv"][3]), None)},
            name="on_device",
            why="The exercise is about the GPU, so the GPU has to compute.",
            advice="Training belongs on the device that the script finds.",
        ),
        "Training runs on the device",
    ),
    fault(
        "rows",
        "Images and labels cross to the device together, not one by one",
        lambda event: event.to_device,
        lambda steps: steps + 2 * FEW,
        "host-to-device copies",
        "Each copy has its latency, whether it brings one image or a thousand.",
        "Count the copies of one step. How many would do?",
    ),
    fault(
        "round_trip",
        "No batch comes back to the host",
        lambda event: event.to_host and event.size_bytes >= LARGEST_RESULT_BYTES,
        lambda steps: 0,
        "large device-to-host copies",
        "The batch crosses the bus twice, and the device waits for the CPU's arithmetic in between.",
        "Ask where the batch is before this line, and where it has to be after it.",
    ),
    fault(
        "constants",
        "Constants are copied to the device once",
        lambda event: event.to_device and event.size_bytes <= SMALL_BYTES,
        _few,
        "tiny copies to the device",
        "The bytes are the same in each step, and so is the copy's latency.",
        "Ask what changes from step to step, and what does not.",
        another=lambda steps: steps + 2 * FEW,
    ),
    fault(
        "mask",
        "No result has a data-dependent size",
        _waits_for_a_size,
        _few,
        "waits for a mask",
        "The host cannot launch the next kernel before the number of chosen rows is known: it waits.",
        "Keep the size of the batch. Which function could leave these images out by itself?",
    ),
    fault(
        "branches",
        "No Python branch in the loop over parameters reads a value of the device",
        _reads_a_number,
        lambda steps: steps + FEW,
        "numbers read by the host",
        "Each `if` on a tensor waits until the device has caught up, for every parameter in every step.",
        "Let the device decide: do the same arithmetic in both cases, with a value that may change nothing.",
    ),
    fault(
        "numbers",
        "The loop over steps reads no number from the device",
        _reads_a_number,
        _few,
        "numbers read by the host",
        "The host should run ahead of the device. Each .item() makes it wait until the device has caught up.",
        "When does the host need these numbers? Until then they can stay where they are.",
        another=lambda steps: steps + FEW,
    ),
    fault(
        "synchronize",
        "Nothing waits for the whole device in the loop",
        lambda event: event.kind is Kind.SYNCHRONISE and event.name.endswith("synchronize"),
        lambda steps: 1,
        "waits for the whole device",
        "Operators of one stream run in order by themselves. Only reading a clock needs this wait.",
        "Ask what would go wrong without this wait.",
    ),
    fault(
        "averages",
        "The weights' mean is computed where the weights are",
        lambda event: event.to_host and SCALAR_BYTES < event.size_bytes < LARGEST_RESULT_BYTES,
        lambda steps: 2 * FEW,
        "small device-to-host copies",
        "Each parameter crosses the bus in each step, and the host waits each time.",
        "Ask how often the host needs these sums.",
    ),
    syncs(
        at_most=10,
        why="The only waits left should be for the results, at the end.",
        advice="Look for what is copied to the host in each step: `gpututor trace` names the lines.",
    ),
    Check(
        "optimizer",
        lambda _: "All parameters are updated in a few launches",
        updates_one_by_one,
        (),
        "Tiny kernels for each parameter in each step: launching them takes longer than their work.",
        "PyTorch updates a whole list of parameters at once: look where it keeps this kind of code.",
        "gpu",
    ),
    with_sentence(
        launches(
            by_name={"aten::*conv*": lambda drawn, machine: (0, 6 * int(drawn["argv"][3]) + 16)},
            name="validation",
            why="One image uses a small part of the device, and takes as many launches as a whole batch.",
            advice="The network takes batches. Find out how to get one loss for each image of a batch.",
        ),
        "Images for validation go through the network together",
    ),
    speed(
        1 / 9,
        compared_with="the script that you began with",
        why="Each fault takes part of the time. Without them, the device does little but the work itself.",
        advice="Look at `gpututor trace` on your file: which lines cost most, and what do they wait for?",
    ).with_points(6),
]

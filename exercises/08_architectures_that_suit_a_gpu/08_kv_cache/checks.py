"""The right tokens, each read once, with a cache of constant size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from gpututor.checks import launches, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Call, Check, Finding, Run
from gpututor.trace.events import Event, Kind

LONGEST = 32
"""Positions that the model has a vector for: no cache is longer."""
PER_TOKEN = 24
"""Launches of a token: about 15 by the fused operator, a few more by products and a softmax."""
KEPT = 768
"""Bytes of a token that may stay: the token itself, in a piece of 512 bytes. Its keys and values take 2048 or more."""


def reference(weights: dict[str, torch.Tensor], heads: int, prompts: torch.Tensor, steps: int) -> torch.Tensor:
    """Each text by itself, all of it read again for each token."""
    return torch.tensor([written(weights, heads, prompt, steps) for prompt in prompts.tolist()])


def written(weights: dict[str, torch.Tensor], heads: int, prompt: list[int], steps: int) -> list[int]:
    """The tokens after the prompt, by the model's equations."""
    text = list(prompt)
    for _ in range(steps):
        x = weights["tokens.weight"][text] + weights["places.weight"][: len(text)]
        inside = x @ weights["inside.weight"].T + weights["inside.bias"]
        query, key, value = (part.unflatten(1, (heads, -1)) for part in inside.chunk(3, dim=1))
        agreement = torch.einsum("hk,nhk->hn", query[-1], key) / key.shape[-1] ** 0.5
        seen = torch.einsum("hn,nhk->hk", agreement.softmax(dim=1), value).flatten()
        last = x[-1] + weights["outside.weight"] @ seen + weights["outside.bias"]
        text.append(int((weights["head.weight"] @ last + weights["head.bias"]).argmax()))
    return text[len(prompt) :]


def sizes(drawn: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return the number of texts, the tokens read of each text, the width, and the vocabulary."""
    vocabulary, width = drawn["weights"]["head.weight"].shape
    texts, prompt = drawn["prompts"].shape
    return int(texts), int(prompt + drawn["steps"] - 1), int(width), int(vocabulary)


def find_read_again(run: Run) -> Finding | None:
    """Compare the operations of all products on the device with those that read each token once."""
    for call in run.calls:
        texts, read, width, vocabulary = sizes(call.drawn)
        steps = int(call.drawn["steps"])
        least = 2 * texts * (read * 3 * width * width + steps * width * vocabulary)
        most = 2 * texts * read * (4 * width * width + width * vocabulary + 2 * width * LONGEST)
        events = [event for event in call.trace if event.flops and event.device != "cpu"]
        done = sum(event.flops for event in events)
        if not 0.9 * least <= done <= 1.1 * most:
            return Finding(
                expected=f"{least:,} to {most:,} operations in products: each of {read} tokens of a text is read once",
                got=f"{done:,.0f} operations{run.which(call)}",
                line=max(events, key=lambda event: event.flops).line if events else run.line_of(call),
            )
        projections, tokens = projected(call, events)
        if tokens > read:
            expected = f"{read} tokens of a text are read: the prompt and all written tokens but the last"
            return Finding(expected, f"{tokens} tokens{run.which(call)}", projections[-1].line)
    return None


def projected(call: Call, events: list[Event]) -> tuple[list[Event], int]:
    """The projections of whole prompts and of single tokens, and how many tokens of a text they read."""
    texts, _, width, _ = sizes(call.drawn)
    single = 6 * texts * width * width
    prompt = int(call.drawn["prompts"].shape[1])
    reads = [event for event in events if event.flops in (single, prompt * single)]
    return reads, round(sum(event.flops for event in reads) / single)


def scored(call: Call) -> list[Event]:
    """The head's products for one token of each text, in order: one for each step, except perhaps the prompt's."""
    texts, _, width, vocabulary = sizes(call.drawn)
    wanted = 2 * texts * width * vocabulary
    return [event for event in call.trace if event.kind is Kind.KERNEL and event.flops == wanted]


def find_growth(run: Run) -> Finding | None:
    """Compare the memory held when the head runs for the last token and for an early one."""
    for call in run.calls:
        heads = scored(call)
        if len(heads) < int(call.drawn["steps"]) - 1:
            expected = f"{call.drawn['steps']} products of the model's head, one for each token"
            return Finding(expected, f"{len(heads)}{run.which(call)}", run.line_of(call))
        first, last = (held_at(call, event.launched) for event in (heads[1], heads[-1]))
        allowed = KEPT * (len(heads) - 2)
        if last - first > allowed:
            grown = [
                event
                for event in call.trace
                if event.kind is Kind.ALLOCATE and heads[-2].launched < event.launched <= heads[-1].launched
            ]
            return Finding(
                expected=f"at most {allowed:,} bytes more at the last token than at an early one: the tokens alone",
                got=f"{last - first:,} bytes more{run.which(call)}",
                line=max(grown, key=lambda event: event.size_bytes).line if grown else run.line_of(call),
            )
    return None


def held_at(call: Call, moment: int) -> int:
    """Bytes that tensors hold at this moment."""
    held = 0
    for event in call.trace:
        if event.kind in (Kind.ALLOCATE, Kind.FREE) and event.launched <= moment:
            held = event.allocated
    return held


def find_other_shapes(run: Run) -> Finding | None:
    """Find a token whose kernels, or their bytes, differ from those of the token before it."""
    for call in run.calls:
        kernels = [event for event in call.trace if event.kind is Kind.KERNEL]
        ends = [event.launched for event in scored(call)]
        steps = [[event for event in kernels if begin < event.launched <= end] for begin, end in pairwise(ends[1:])]
        for before, after in pairwise(steps):
            for earlier, later in zip(before, after, strict=False):
                if (earlier.name, earlier.size_bytes) != (later.name, later.size_bytes):
                    expected = f"{earlier.name} on {earlier.size_bytes:,} bytes, as for the token before"
                    got = f"{later.name} on {later.size_bytes:,} bytes{run.which(call)}"
                    return Finding(expected, got, later.line)
            if len(before) != len(after):
                got = f"{len(after)} kernels{run.which(call)}"
                return Finding(f"{len(before)} kernels, as for the token before", got, after[-1].line)
    return None


def modelled(machine: Any) -> bool:
    """The traces of a real device have neither operations nor bytes of kernels."""
    return bool(machine.virtual) and machine.device != "cpu"


def launches_allowed(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    return 1, PER_TOKEN * (int(drawn["steps"]) + 1)


checks = [
    structure(
        reference,
        advice="Return the new tokens only: a row for each text, a column for each step.",
    ),
    placement(
        "device",
        why="The caller decides when to read the tokens, and may start other work first.",
        advice="argmax returns a tensor on the GPU, and the model accepts it as the next token.",
    ),
    parity(
        reference,
        why="A cache must not change the text.",
        advice="Put a token's key and value at its own position, and hide positions that are not yet written.",
    ),
    syncs(
        at_most=0,
        why="A wait in each step leaves the GPU idle while the host prepares the next step.",
        advice="The host knows the positions without the GPU: count them in Python.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Prompts and model are on the GPU. Each token that the host reads makes it wait.",
        advice="Make cache, positions and mask on the GPU; feed the token back as a tensor. `mask[place] = True` copies"
        " True from the host: compare all places with the newest instead.",
    ),
    Check(
        "read_once",
        lambda _: "Each token is read once",
        find_read_again,
        ("structure",),
        "Without a cache, the 1000th token costs 1000 times as much as the first.",
        "After the prompts, embed and project the newest token only; keep all keys and values.",
        modelled,
    ),
    launches(
        launches_allowed,
        why="A step of the whole batch takes a few kernels.",
        advice="Do each step once for all texts, and write new keys and values with one assignment each.",
        on=modelled,
    ),
    Check(
        "growth",
        lambda _: "The memory does not grow with the tokens",
        find_growth,
        ("structure",),
        "torch.cat makes a new, larger cache for each token and copies all of the old one.",
        "Make the cache once, before the loop, with room for prompts and steps. Then assign into it.",
        modelled,
    ),
    Check(
        "same_shapes",
        lambda _: "Each token runs the same kernels on the same shapes",
        find_other_shapes,
        ("structure",),
        "A CUDA graph replays one fixed step, and compiled code is made for fixed shapes.",
        "Attend to the whole cache, and let a mask hide the positions that are not yet written.",
        modelled,
    ),
]

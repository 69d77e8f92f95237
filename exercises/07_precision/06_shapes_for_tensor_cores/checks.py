"""The losses of the words that exist, from products whose rows begin at multiples of 16 bytes."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import parity, placement, precision, speed, structure, syncs, transfers
from gpututor.checks.model import Call, Check, Finding, Run
from gpututor.trace.events import Event, Kind

PIECE = 8
"""Numbers of float16 in 16 bytes."""
MORE = 63
"""Padding allowed for each size."""
SLOWER = 1.15
"""Allowed factor over the product time of good code.

Without padding, products in the first case take 1.27 times as long on a T4, and 1.4 times on an H100.
"""


def reference(
    table: torch.Tensor, bias: torch.Tensor, batches: list[torch.Tensor], labels: list[torch.Tensor]
) -> torch.Tensor:
    """Batch by batch, without padding, in float32 or wider."""
    wide = torch.promote_types(table.dtype, torch.float32)
    scores = [torch.einsum("nf,wf->nw", batch.to(wide), table.to(wide)) + bias.to(wide) for batch in batches]
    means = [functional.cross_entropy(rows, wanted) for rows, wanted in zip(scores, labels, strict=True)]
    return torch.stack(means)


def products(call: Call) -> list[Event]:
    return [event for event in call.trace if event.kind is Kind.KERNEL and event.name.endswith("mm") and event.flops]


def sizes_of(event: Event, call: Call) -> tuple[int, int] | None:
    """Return words and features of a product, by its operations and bytes; None for a product of other sizes.

    A product of (n, f) and (f, w) does 2·n·f·w operations and moves both factors, the result, and perhaps the bias.
    """
    words, features = call.drawn["table"].shape
    counts = [len(batch) for batch in call.drawn["batches"]]
    for rows in {*counts, sum(counts)}:
        for wide, deep in product(range(words, words + MORE + 1), range(features, features + MORE + 1)):
            moved = 2 * (rows * deep + deep * wide + rows * wide)
            extra = event.size_bytes - moved
            if event.flops == 2 * rows * deep * wide and extra in (0, 2 * wide, 2 * rows * wide):
                return wide, deep
    return None


def find_unaligned(run: Run) -> Finding | None:
    """Find a product whose rows do not begin at multiples of 16 bytes, or with more padding than needed."""
    for call in run.calls:
        words, features = call.drawn["table"].shape
        expected = f"{-(-words // PIECE) * PIECE:,} words of {-(-features // PIECE) * PIECE} features in each product"
        events = products(call)
        if not events:
            return Finding(expected, f"no product on the GPU{run.which(call)}", run.line_of(call))
        for event in events:
            sizes = sizes_of(event, call)
            if sizes is None:
                got = f"a product of other sizes, or with more than {MORE} extra words or features{run.which(call)}"
                return Finding(expected, got, event.line)
            if sizes[0] % PIECE or sizes[1] % PIECE:
                got = f"a product with {sizes[0]:,} words of {sizes[1]} features{run.which(call)}"
                return Finding(expected, got, event.line)
    return None


def find_slow_products(run: Run) -> Finding | None:
    """Compare the time of all products with that of good code."""
    good = run.baselines["baseline.py"]
    for call, model in zip(run.calls, good, strict=True):
        taken, enough = (sum(event.duration for event in products(of)) for of in (call, model))
        if taken > SLOWER * enough:
            slowest = max(products(call), key=lambda event: event.duration)
            return Finding(
                expected=f"at most {SLOWER * enough / 1000:.1f} µs in products, {SLOWER} times those of good code",
                got=f"{taken / 1000:.1f} µs (modelled){run.which(call)}",
                line=slowest.line,
            )
    return None


def find_padded_again(run: Run) -> Finding | None:
    """Find a call with more than two padded tables. Code that pads in two steps makes two."""
    for call in run.calls:
        table = call.drawn["table"]
        words, features = table.shape
        most = 2 * (words + MORE) * (features + MORE) + 512
        made = [
            event for event in call.trace if event.kind is Kind.ALLOCATE and table.nbytes <= event.size_bytes <= most
        ]
        if len(made) > 2:
            got = f"{len(made)} tensors of the table's size{run.which(call)}"
            return Finding("one padded table, or two if it is padded in two steps", got, made[-1].line)
    return None


def modelled(machine: Any) -> bool:
    """True on a virtual GPU: traces of a real device have neither operations nor bytes of kernels."""
    return bool(machine.virtual) and machine.device != "cpu"


checks = [
    structure(reference, advice="torch.stack of the losses, one for each batch; scores.float() before the loss."),
    placement("device", advice="Pad on the GPU, and leave the losses there."),
    parity(
        reference,
        inside=torch.float16,
        why="Padding changes the layout. It must not change a result.",
        advice="A word that does not exist needs a bias of -inf, or its scores must be cut off before the softmax.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Table and batches are on the GPU.",
        advice="functional.pad works on the GPU. Sizes are in .shape, which needs no copy.",
    ),
    syncs(at_most=0, why="A wait leaves the GPU idle between two batches.", advice="Do not read a loss."),
    precision(
        half_share=0.9,
        why="A float32 product does not use the tensor cores at all, unless TF32 is allowed.",
        advice="Multiply the float16 tensors as they are. Widen the scores only.",
    ),
    Check(
        "product_time",
        lambda _: f"Products take at most {SLOWER} times as long as those of good code",
        find_slow_products,
        ("structure",),
        "Rows that begin inside a piece of 16 bytes are loaded in smaller pieces, and the tensor cores wait for them.",
        "Both lengths count: features (the rows of batch and table) and words (the rows of the scores).",
        modelled,
        timed=True,
    ),
    Check(
        "aligned",
        lambda _: "The sizes of each product are multiples of 8",
        find_unaligned,
        ("structure",),
        "Tensor cores load fastest in pieces of 16 bytes. More padding than that is wasted work.",
        "-size % 8 is what a size lacks. Pad features and words, once each.",
        modelled,
    ),
    Check(
        "pad_once",
        lambda _: "The table is padded once",
        find_padded_again,
        ("structure",),
        "Padding copies the whole table. Repeated for each batch, it costs more than it saves.",
        "Pad table and bias before the loop, and only the batch inside it.",
        modelled,
    ),
    speed(
        3,
        compared_with="good code",
        why="Padding is one operator for the table and one for each batch.",
        advice="functional.pad, or one assignment to a slice, copies all rows at once.",
    ),
]

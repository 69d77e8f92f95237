"""Views where the layout allows them, and no memory beyond the one copy that is needed."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import aliasing, memory, parity, placement, structure, syncs


def reference(qkv: torch.Tensor, context: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    """The pieces, by plain slices, and the heads side by side."""
    width = qkv.shape[-1] // 3
    size = width // heads
    pieces = {}
    for position, name in enumerate(("query", "key", "value")):
        starts = range(position * width, (position + 1) * width, size)
        pieces[name] = torch.stack([qkv[:, :, start : start + size] for start in starts], dim=1)
    return {
        **pieces,
        "joined": torch.cat([context[:, head] for head in range(heads)], dim=-1),
    }


def joined_is_a_view(drawn: dict[str, Any]) -> bool:
    """Return True if the heads lie side by side in memory already: with one head, or one time."""
    return drawn["heads"] == 1 or drawn["context"].shape[2] == 1


def shared(drawn: dict[str, Any], machine: Any) -> dict[str, str]:
    views = dict.fromkeys(("query", "key", "value"), "qkv")
    return {**views, "joined": "context"} if joined_is_a_view(drawn) else views


def bytes_needed(drawn: dict[str, Any], machine: Any) -> int:
    """Bytes of the joined heads, as the allocator rounds them; 0 if a view is enough."""
    return 0 if joined_is_a_view(drawn) else -(-drawn["context"].nbytes // 512) * 512


checks = [
    structure(reference),
    placement(advice="A view stays where its tensor is. Nothing here has to leave the device."),
    parity(
        reference,
        why="The shape may be right and the order of the values wrong: view() alone never swaps dimensions.",
        advice="Split the last dimension first, then swap two dimensions. To join, swap them back first.",
    ),
    aliasing(
        shares=shared,
        why="A view costs nothing. A copy of such a tensor takes memory and time in each layer of the model.",
        advice="chunk, view, unflatten and transpose share memory. clone and contiguous do not, and stack and cat "
        "never do; reshape copies only where it must.",
    ),
    syncs(
        at_most=0,
        why="A view needs none of the values.",
        advice="Shapes and strides are known to the host. Read no values, and do not wait for the device.",
    ),
    memory(
        peak=bytes_needed,
        why="Only the joined heads may need memory of their own, and only where no view has their order.",
        advice="One reshape after the transpose makes the one copy. Another contiguous() or clone() makes another.",
    ),
]

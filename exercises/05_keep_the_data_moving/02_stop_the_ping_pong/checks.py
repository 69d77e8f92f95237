"""A single copy to the device, a small copy back, and no wait in between."""

from __future__ import annotations

import torch

from gpututor.checks import launches, parity, placement, races, structure, syncs, transfers


def reference(batch: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same chain on the CPU, written out."""
    centered = batch - batch.sum(dim=0) / len(batch)
    spread = (centered.square().sum(dim=0) / len(batch)).sqrt()
    clipped = torch.minimum(torch.maximum(centered / (spread + 1e-3), torch.tensor(-2.0)), torch.tensor(2.0))
    products = clipped.to(weights.dtype) @ weights
    powers = (products - products.max(dim=1, keepdim=True).values).exp()
    probabilities = powers / powers.sum(dim=1, keepdim=True)
    return {"probabilities": probabilities, "confidence": probabilities.max(dim=1).values}


checks = [
    structure(reference, advice="Return a dict with the two tensors; amax(dim=1) gives one number for each row."),
    placement(
        {"probabilities": "device", "confidence": "cpu"},
        why="Later steps use the probabilities on the device; only the confidences are needed on the host.",
        advice="Use weights.device for the work, and .cpu() for the confidences alone.",
    ),
    transfers(
        to_device=1,
        to_host=1,
        bytes_to_device=lambda drawn, machine: drawn["batch"].nbytes,
        bytes_to_host=lambda drawn, machine: 4 * len(drawn["batch"]),
        why="Each trip in the middle of a chain stops it: copy to the host, wait, work on the CPU, copy back.",
        advice="mean, std, clamp, @, softmax and amax all run where their input is. Move the batch first, and only the"
        " confidences at the end.",
    ),
    syncs(
        at_most=1,
        why="Fetching the confidences needs one wait. Any other wait stops the device for nothing.",
        advice="Look for .cpu(), .numpy(), .item(), an if or a print before the end, on what lives on the device.",
    ),
    races(
        why="A non-blocking copy may still be under way when the function returns: the caller may read"
        " what was in that memory before.",
        advice="Fetch the confidences with .cpu(), which waits until they are there; or wait before you return.",
    ),
    launches(
        (6, 24),
        why="Fewer launches than steps mean that the CPU did some steps; many more mean that each row had its own.",
        advice="Move the batch as it came, then standardize, clip, multiply and take the softmax on the device, each"
        " for all rows at once.",
    ),
    parity(
        reference,
        advice="Mind correction=0, the 1e-3 that is added to the standard deviation, and the dimension of each step.",
    ),
]

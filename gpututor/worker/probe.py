"""Prints which devices a worker can compute on, as JSON. Run inside an isolation, to see whether they work there."""

from __future__ import annotations

import json

import torch

from gpututor.devices.probe import describe_devices
from gpututor.worker.seccomp import block_escaping_syscalls


def main() -> None:
    """One JSON object on the last line of stdout: device → what went wrong there, empty where nothing did."""
    block_escaping_syscalls()
    print(json.dumps({device["name"]: trouble_on(device["name"]) for device in describe_devices()}))


def trouble_on(device: str) -> str:
    """Multiply two small matrices there, and look at the result here."""
    try:
        product = torch.full((8, 8), 2.0, device=device) @ torch.full((8, 8), 3.0, device=device)
        wrong = product.cpu().ne(48.0).any().item()
    except RuntimeError as error:
        return str(error).partition("\n")[0][:500]
    return "a product of two matrices came out wrong" if wrong else ""


if __name__ == "__main__":
    main()

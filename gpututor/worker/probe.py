"""Entry point of a probe: prints which devices work in the isolation that it runs in, as JSON."""

from __future__ import annotations

import json

import torch

from gpututor.devices.probe import describe_devices
from gpututor.worker.seccomp import block_escaping_syscalls


def main() -> None:
    """Print one JSON object on the last line: device → error, empty if there is none."""
    block_escaping_syscalls()
    print(json.dumps({device["name"]: error_on(device["name"]) for device in describe_devices()}))


def error_on(device: str) -> str:
    """Multiply two small matrices on the device, and check the result."""
    try:
        product = torch.full((8, 8), 2.0, device=device) @ torch.full((8, 8), 3.0, device=device)
        wrong = product.cpu().ne(48.0).any().item()
    except RuntimeError as error:
        return str(error).partition("\n")[0][:500]
    return "a product of two matrices came out wrong" if wrong else ""


if __name__ == "__main__":
    main()

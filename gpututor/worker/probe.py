"""Entry point of a probe: prints which devices work in the isolation that it runs in, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from gpututor.devices.probe import describe_devices
from gpututor.worker.seccomp import block_escaping_syscalls


def main() -> None:
    """Print each device's error as JSON, empty if there is none; `cuda` has the reason if torch sees no GPU."""
    block_escaping_syscalls()
    errors = {device["name"]: error_on(device["name"]) for device in describe_devices()}
    print(json.dumps({**errors, **({} if "cuda:0" in errors else reason_without_gpus())}))


def reason_without_gpus() -> dict[str, str]:
    """Return CUDA's error by the name `cuda`; empty if the machine has no GPU device files, or torch has no CUDA."""
    if torch.version.cuda is None or not any(Path("/dev").glob("nvidia[0-9]*")):
        return {}
    try:
        torch.cuda.get_device_properties(0)
    except (RuntimeError, AssertionError) as error:
        return {"cuda": _first_line(error)}
    return {"cuda": "torch.cuda.is_available() is False, although CUDA starts"}


def error_on(device: str) -> str:
    """Return the error of a product of two small matrices on the device; empty if it is right."""
    try:
        product = torch.full((8, 8), 2.0, device=device) @ torch.full((8, 8), 3.0, device=device)
        wrong = product.cpu().ne(48.0).any().item()
    except RuntimeError as error:
        return _first_line(error)
    return "it computes a wrong product of two matrices" if wrong else ""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:500]


if __name__ == "__main__":
    main()

"""The devices of this machine that PyTorch can use, as they were found last.

--json prints one object:
  schema_version  1
  torch           PyTorch's version, "" when there is none
  devices         [{name, kind, description, memory_bytes, uuid}]; kind is "cpu", "cuda", "mps" or "xpu"
  probed_at       when they were found out: ISO 8601, UTC
  error           why they could not be found out, "" when they were

The virtual GPU is not listed: it is always there.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from gpututor.hardware.inventory import device_line, load_inventory
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")
    parser.add_argument("--refresh", action="store_true", help="look again instead of printing the stored list")


def main(arguments: argparse.Namespace) -> int:
    """Return 1 if the devices could not be found out."""
    inventory = load_inventory(refresh=arguments.refresh)
    if arguments.json:
        print(json.dumps({"schema_version": 1, **asdict(inventory)}, indent=2))
    elif not inventory.error:
        for device in inventory.devices:
            print(device_line(device))
        print("virtual  a virtual GPU, always there: real values on the CPU, and every copy and wait recorded")
        print(f"PyTorch {inventory.torch}; found {inventory.probed_at}; `--refresh` looks again")
    if inventory.error:
        print(f"gpututor: {escape_control_chars(inventory.error)}", file=sys.stderr)
        return 1
    return 0

"""List the devices of this machine that PyTorch can use.

--json prints one object:
  schema_version  1
  torch           PyTorch's version, "" without PyTorch
  devices         [{name, kind, description, memory_bytes, uuid}]; kind is "cpu", "cuda", "mps" or "xpu"
  probed_at       time of the search: ISO 8601, UTC
  error           reason why the search failed, "" if it did not

The JSON does not list the virtual GPU, which every machine has. The list is stored; --refresh searches again.
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
    parser.add_argument("--refresh", action="store_true", help="search again instead of printing the stored list")


def main(arguments: argparse.Namespace) -> int:
    """Return 1 if the search for devices failed."""
    inventory = load_inventory(refresh=arguments.refresh)
    if arguments.json:
        print(json.dumps({"schema_version": 1, **asdict(inventory)}, indent=2))
    elif not inventory.error:
        for device in inventory.devices:
            print(device_line(device))
        print("virtual  a virtual GPU, on every machine: real values on the CPU, and every copy and wait recorded")
        print(f"PyTorch {inventory.torch}; checked {inventory.probed_at}; `--refresh` checks again")
    if inventory.error:
        print(f"gpututor: {escape_control_chars(inventory.error)}", file=sys.stderr)
        return 1
    return 0

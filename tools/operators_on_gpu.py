"""Measure PyTorch's operator samples on a GPU: kernels, waits, copies, memory and results of each.

    python tools/operators_on_gpu.py --write     # on a real GPU: replaces the stored facts
    python tools/operators_on_gpu.py             # prints how a virtual GPU differs from them

`tests/devices/virtual/operators/test_like_a_real_gpu.py` compares a virtual GPU with the stored facts. Intended
differences are listed in `tests/devices/virtual/data/operator_differences.toml`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.operators_on_gpu import DATA, apart, measure, measure_virtual, store, stored


def _write() -> None:
    if not torch.cuda.is_available():
        sys.exit("There is no CUDA device here.")
    source = (
        f"Measured on an {torch.cuda.get_device_name()} with torch {torch.__version__.partition('+')[0]}, "
        f"CUDA {torch.version.cuda}."
    )
    measured = measure(None)
    store(measured, source)
    print(f"{len(measured)} operators written to {DATA}")


def _compare() -> None:
    real, virtual = stored(), measure_virtual()
    for name, facts in real.items():
        for line in apart(name, facts, virtual.get(name, []), {}):
            print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="measure on this machine's GPU, and store the facts")
    if parser.parse_args().write:
        _write()
    else:
        _compare()


if __name__ == "__main__":
    main()

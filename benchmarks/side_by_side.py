"""Modelled over measured time of small pieces of work, on this machine's GPU and on the virtual GPU.

    python benchmarks/side_by_side.py [--model NAME] [--modelled]

Elementwise kernels, matrix products, convolutions, copies, launches, reductions, softmax, attention, an optimizer's
step. `--modelled` prints modelled times only, and measures nothing. Otherwise, without a CUDA GPU, the exit code is 2.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import sys

import torch
from calibrate_gpu import report
from gpu_figures import matching
from micro import CudaTimer, calibration_cases, measure, modelled, other_cases

from gpututor.hardware.gpus import gpu_spec


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="the virtual GPU to compare with; by default the model of this GPU")
    parser.add_argument("--modelled", action="store_true", help="measure nothing")
    options = parser.parse_args()
    cases = [*calibration_cases(), *other_cases()]
    if options.modelled:
        name = gpu_spec(options.model or "T4").name
        print(f"virtual {name}: modelled, nothing was measured")
        for case, seconds in modelled(name, cases).items():
            print(f"{case.words:52} {seconds * 1e6:9.1f} µs")
        return
    if not torch.cuda.is_available():
        print("This machine has no CUDA GPU: there is nothing to compare with. Try --modelled.", file=sys.stderr)
        sys.exit(2)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    known = gpu_spec(options.model) if options.model else matching(properties.name, properties.total_memory)
    if known is None:
        print(f"gpus.toml has no {properties.name}. Choose one with --model.", file=sys.stderr)
        sys.exit(2)
    measured = measure(CudaTimer(), cases)
    print(f"{properties.name}, measured; virtual {known.name}, modelled")
    print("\n".join(report(measured, modelled(known.name, cases))))


if __name__ == "__main__":
    main()

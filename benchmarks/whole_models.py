"""Agreement of modelled and measured times of whole models that no factor is fitted to, in totals only.

    git clone https://github.com/ScalingIntelligence/KernelBench FOLDER      measured with commit 423217d
    python benchmarks/whole_models.py FOLDER [--level 3] [--numbers N ...]

Each program of the level runs on the virtual GPU without values, as KernelBench runs it: forward passes in float32
without gradients, between two events. The measured times are those of its `results/timing/H100_PCIe_LambdaLabs`. The
names of programs appear only with an error: the times stay unseen, so that nobody fits to them. Some programs need the
package einops. The models' weights are drawn on the CPU, which takes most of the time: six minutes for level 3.
"""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from gpututor.devices.virtual import virtual_gpu

MEASURED = "results/timing/H100_PCIe_LambdaLabs/baseline_time_torch.json"
WARM_UP, RUNS = 3, 5


def modelled_ms(program: Path) -> float:
    """Return the mean modelled time of a forward pass in milliseconds."""
    with virtual_gpu(model="H100 PCIe", values=False), torch.no_grad():
        names: dict[str, Any] = runpy.run_path(str(program))
        inputs = [value.cuda() if isinstance(value, torch.Tensor) else value for value in names["get_inputs"]()]
        model = names["Model"](*names["get_init_inputs"]()).cuda()
        times = []
        for _ in range(WARM_UP + RUNS):
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            model(*inputs)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    return fmean(times[WARM_UP:])


def main() -> None:
    """Print the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of KernelBench")
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--numbers", type=int, nargs="+", metavar="N", help="only the programs of these numbers")
    options = parser.parse_args()
    level = f"level{options.level}"
    measured = json.loads((options.folder / MEASURED).read_text(encoding="utf-8"))[level]
    programs = sorted((options.folder / "KernelBench" / level).glob("*.py"))
    if options.numbers:
        programs = [path for path in programs if int(path.name.partition("_")[0]) in options.numbers]
    ratios = []
    for path in programs:
        try:
            ratios.append(modelled_ms(path) / measured[path.name]["mean"])
        except Exception as error:
            print(f"{path.name}: {type(error).__name__}: {error}", flush=True)
    print(
        f"level {options.level} on H100 PCIe: {len(programs)} programs, {len(ratios)} with a price,"
        f" within ±25 %: {sum(0.75 <= ratio <= 1.25 for ratio in ratios)},"
        f" within 2×: {sum(0.5 <= ratio <= 2 for ratio in ratios)}, median ratio {median(ratios):.2f}"
    )


if __name__ == "__main__":
    main()

"""How well the prices agree with programs and GPUs that no factor is fitted on (data/measured_elsewhere.json).

python benchmarks/unseen.py [--programs]
"""

from __future__ import annotations

import argparse
import json
from statistics import median

from programs import DATA, Measured, Operator, measured, modelled_s, tensors, within, within_quarter

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.hardware.gpus import gpu_spec

ELSEWHERE = DATA.with_name("measured_elsewhere.json")
MODELS = {"H100 SXM": "H100"}
"""The file's names of GPUs that gpus.toml calls otherwise."""


def unseen() -> list[Measured]:
    """Every measurement of the second file; `size` is `large`, `small` or `level 2`."""
    data = json.loads(ELSEWHERE.read_text(encoding="utf-8"))
    known = {(one.size, one.program): one.operators for one in measured()}
    found = []
    for size in ("large", "small"):
        for program, times in data[size].items():
            for gpu, milliseconds in times.items():
                operators = known[size, program]
                found.append(Measured(program, size, MODELS.get(gpu, gpu), milliseconds / 1e3, operators))
    for program, entry in data["level2"].items():
        operators = tuple(
            Operator(one["op"], tensors(one["in"]), tensors(one["out"]), one["flops"]) for one in entry["ops"]
        )
        for gpu, milliseconds in entry["ms"].items():
            found.append(Measured(program, "level 2", MODELS.get(gpu, gpu), milliseconds / 1e3, operators))
    return found


def ratio(one: Measured) -> float:
    """Modelled over measured time, with the fitted factors."""
    return modelled_s(one, calibrated(gpu_spec(one.model))) / one.seconds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", action="store_true", help="also each program that is 25 % off or more")
    listed = parser.parse_args().programs
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in unseen():
        groups.setdefault((one.size, one.model), []).append(one)
    for (size, model), programs in groups.items():
        found = [ratio(one) for one in programs]
        print(
            f"{size:8} on {model:10} {len(found):4}   within ±25 %: {within_quarter(found):3}"
            f"   within 2×: {within(found, 2):3}   median ratio {median(found):.2f}"
        )
        for value, one in zip(found, programs, strict=True):
            if listed and not 0.75 <= value <= 1.25:
                print(f"    {one.seconds * 1e3:9.3f} ms  {value:5.2f}  {one.program}")


if __name__ == "__main__":
    main()

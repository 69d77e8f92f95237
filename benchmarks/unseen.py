"""Agreement of the prices with programs and GPUs that no factor is fitted to (data/measured_elsewhere.json).

python benchmarks/unseen.py [--programs]
"""

from __future__ import annotations

import argparse
import json
from statistics import median

from programs import DATA, Measured, measured, modelled_s, read_operator, within, within_quarter

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.hardware.gpus import gpu_spec

ELSEWHERE = DATA.with_name("measured_elsewhere.json")
MODELS = {"H100 SXM": "H100"}
"""Names in gpus.toml by the data file's names of GPUs, if they differ."""


def unseen() -> list[Measured]:
    """Return every measurement of the data file; `size` is `large`, `small` or `level 2`."""
    data = json.loads(ELSEWHERE.read_text(encoding="utf-8"))
    known = {(program.size, program.program): program.operators for program in measured()}
    programs = []
    for size in ("large", "small"):
        for program, times in data[size].items():
            for gpu, milliseconds in times.items():
                operators = known[size, program]
                programs.append(Measured(program, size, MODELS.get(gpu, gpu), milliseconds / 1e3, operators))
    for program, entry in data["level2"].items():
        operators = tuple(read_operator(row) for row in entry["ops"])
        for gpu, milliseconds in entry["ms"].items():
            programs.append(Measured(program, "level 2", MODELS.get(gpu, gpu), milliseconds / 1e3, operators))
    return programs


def ratio(program: Measured) -> float:
    """Return modelled over measured time, with the fitted factors."""
    return modelled_s(program, calibrated(gpu_spec(program.model))) / program.seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", action="store_true", help="also each program that is 25 %% off or more")
    listed = parser.parse_args().programs
    groups: dict[tuple[str, str], list[Measured]] = {}
    for program in unseen():
        groups.setdefault((program.size, program.model), []).append(program)
    for (size, model), programs in groups.items():
        values = [ratio(program) for program in programs]
        print(
            f"{size:8} on {model:10} {len(values):4}   within ±25 %: {within_quarter(values):3}"
            f"   within 2×: {within(values, 2):3}   median ratio {median(values):.2f}"
        )
        for value, program in zip(values, programs, strict=True):
            if listed and not 0.75 <= value <= 1.25:
                print(f"    {program.seconds * 1e3:9.3f} ms  {value:5.2f}  {program.program}")


if __name__ == "__main__":
    main()

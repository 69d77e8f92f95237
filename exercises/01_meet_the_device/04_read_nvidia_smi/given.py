"""Reports of nvidia-smi, and GPUs here that are partly in use."""

from __future__ import annotations

import time
from typing import Any

import torch

MIB = 1 << 20
WIDE = "+" + "-" * 89 + "+"
"""A line across the report, which is 91 columns wide."""
DRIVERS = (("535.183.01", "12.2"), ("550.54.15", "12.4"), ("560.35.03", "12.6"), ("580.65.06", "13.0"))
GPUS = (("Tesla T4", 70, 15360), ("NVIDIA A100-SXM4-40GB", 400, 40960), ("NVIDIA L4", 72, 23034))
NAMES = ("python", "/usr/lib/xorg/Xorg", "...envs/torch/bin/python3.11", "/opt/tritonserver/bin/server")

HELD: list[torch.Tensor] = []
"""Tensors on the GPUs of this machine."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """A report, its figures, and for each GPU of this machine: MiB of a tensor, MiB of cache, percent of work."""
    chance = torch.Generator().manual_seed(seed * 10 + case)

    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=chance))

    driver, cuda = DRIVERS[(seed + case) % len(DRIVERS)]
    name, watts, total = GPUS[some(0, len(GPUS))]
    rows, processes = [], []
    for gpu in range(case + 1):
        own = [(gpu, some(1000, 3_000_000), some(100, 5000)) for _ in range((2, 0, 1)[(gpu + case) % 3])]
        processes += own
        rows.append((sum(mib for _, _, mib in own) + some(1, 90), total, some(1, 101), some(30, 84), some(9, watts)))
    names = [NAMES[some(0, len(NAMES))] for _ in processes]
    return {
        "report": report(driver, cuda, name, watts, rows, processes, names),
        "driver": driver,
        "cuda": cuda,
        "gpus": [row[:3] for row in rows],
        "processes": processes,
        "here": [(2 * some(6, 40), 2 * some(6, 20), some(5, 95)) for _ in range(2)],
    }


def report(
    driver: str,
    cuda: str,
    name: str,
    watts: int,
    rows: list[tuple[int, ...]],
    processes: list[tuple[int, ...]],
    names: list[str],
) -> str:
    """The text that nvidia-smi prints."""
    bars = "+-----------------------------------------+------------------------+----------------------+"
    lines = [
        "Mon Mar  2 09:41:07 2026",
        WIDE,
        f"| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<9}|",
        bars,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        bars.replace("-", "=").replace("+", "|"),
    ]
    for number, (used, total, percent, degrees, power) in enumerate(rows):
        lines += [
            f"| {number:>3}  {name:<30} Off |   00000000:{number + 4:02X}:00.0 Off |                    0 |",
            f"| N/A   {degrees}C    P0           {power:>4}W / {watts:>4}W | {used:>8}MiB / {total:>6}MiB | "
            f"{percent:>6}%      Default |",
            "|                                         |                        |                  N/A |",
            bars,
        ]
    lines += [
        "",
        WIDE,
        "| Processes:                                                                              |",
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        WIDE.replace("-", "=").replace("+", "|"),
    ]
    for (gpu, pid, mib), program in zip(processes, names, strict=True):
        lines.append(f"| {gpu:>4}   N/A  N/A {pid:>9}      C   {program:<38} {mib:>8}MiB |")
    if not processes:
        lines.append("|  No running processes found                                                             |")
    return "\n".join([*lines, WIDE, ""])


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Each GPU holds a tensor and some cache, and was busy for a part of the last second."""
    HELD.clear()
    torch.cuda.empty_cache()
    began = time.perf_counter()
    for index in range(torch.cuda.device_count()):
        held, cached, percent = drawn["here"][index]
        with torch.cuda.device(index):
            HELD.append(torch.empty(held * MIB, dtype=torch.uint8, device="cuda"))
            torch.empty(cached * MIB, dtype=torch.uint8, device="cuda")
            torch.cuda._sleep(round(torch.cuda.clock_rate() * 1e6 * percent / 100))
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)
    time.sleep(max(0.0, 1 - (time.perf_counter() - began)))
    return {"report": drawn["report"]}

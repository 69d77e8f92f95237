"""Read nvidia-smi: driver, memory, utilization and processes."""

import torch


def columns(line: str) -> list[str]:
    """The parts of a line between its bars, without outer spaces."""
    return [part.strip() for part in line.strip().strip("|").split("|")]


def read_nvidia_smi(report: str) -> dict:
    """Read a report, and ask for this machine's GPUs."""
    driver = cuda = ""
    gpus, processes, here = [], [], []
    for line in report.splitlines():
        if "Driver Version" in line:
            words = line.split()
            print(words)
        # TODO: read the GPUs and processes too, and ask this machine.
    return {
        "driver": driver,
        "cuda": cuda,
        "gpus": gpus,
        "processes": processes,
        "here": here,
    }


if __name__ == "__main__":
    report = """
| NVIDIA-SMI 550.54.15  Driver Version: 550.54.15  CUDA Version: 12.4 |
|---------------------------+-----------------------+-----------------|
| GPU  Name   Persistence-M | Bus-Id         Disp.A | Volatile    ECC |
| Fan  Temp   Pwr:Usage/Cap |          Memory-Usage | GPU-Util        |
|===========================+=======================+=================|
|   0  Tesla T4         Off | 00000000:00:04.0  Off |               0 |
| N/A   71C     61W /   70W |  4321MiB /  15360MiB  |     87%         |
+---------------------------+-----------------------+-----------------+
| Processes:                                                          |
|  GPU   GI   CI      PID   Type   Process name            GPU Memory |
|    0   N/A  N/A    2211      C   python                     4318MiB |
"""
    print(read_nvidia_smi(report))

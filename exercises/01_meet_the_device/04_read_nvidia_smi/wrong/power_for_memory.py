# fails: machine
# Mistakes power usage and limit for memory.
import torch


def columns(line: str) -> list[str]:
    """The parts of a line between its bars, without outer spaces."""
    return [part.strip() for part in line.strip("|").split("|")]


def mib(text: str) -> int:
    """The number in a text such as `4321MiB`."""
    return int(text.strip().removesuffix("MiB"))


def read_nvidia_smi(report: str) -> dict:
    """Read a report, and ask for this machine's GPUs."""
    driver = cuda = ""
    gpus, processes, here = [], [], []
    for line in report.splitlines():
        words = line.split()
        if "Driver Version" in line:
            driver, cuda = words[5], words[8]
        elif "MiB /" in line:
            used, total = columns(line)[0].split()[-3].strip("W"), columns(line)[0].split()[-1].strip("W")
            percent = columns(line)[2].partition("%")[0]
            gpus.append((mib(used), mib(total), int(percent)))
        elif "MiB" in line:
            processes.append((int(words[1]), int(words[4]), mib(words[-2])))
    for index in range(torch.cuda.device_count()):
        free, _ = torch.cuda.mem_get_info(index)
        here.append((free >> 20, torch.cuda.utilization(index)))
    return {
        "driver": driver,
        "cuda": cuda,
        "gpus": gpus,
        "processes": processes,
        "here": here,
    }

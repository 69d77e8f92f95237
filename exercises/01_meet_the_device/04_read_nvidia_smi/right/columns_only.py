# Uses columns() for every line, also for processes and versions.
import torch


def columns(line):
    return [part.strip() for part in line.strip("|").split("|")]


def read_nvidia_smi(report):
    result = {"driver": "", "cuda": "", "gpus": [], "processes": [], "here": []}
    below = False
    for line in report.splitlines():
        parts = columns(line)
        below = below or parts[0].startswith("Processes:")
        if "CUDA Version:" in parts[0]:
            result["cuda"] = parts[0].split()[-1]
            result["driver"] = parts[0].split("Driver Version:")[1].split()[0]
        elif below and parts[0].endswith("MiB"):
            gpu, _, _, pid, *_, memory = parts[0].split()
            result["processes"].append((int(gpu), int(pid), int(memory[:-3])))
        elif not below and len(parts) == 3 and "%" in parts[2]:
            used, _, total = parts[1].split()
            result["gpus"].append((int(used[:-3]), int(total[:-3]), int(parts[2][: parts[2].index("%")])))
    for gpu in range(torch.cuda.device_count()):
        result["here"].append((torch.cuda.mem_get_info(gpu)[0] // 1024**2, torch.cuda.utilization(gpu)))
    return result

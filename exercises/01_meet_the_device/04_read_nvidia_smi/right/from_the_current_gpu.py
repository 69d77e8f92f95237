# Makes each GPU the current one; memory that PyTorch has not reserved is free, as no other program runs.
import torch


def read_nvidia_smi(report):
    top, _, bottom = report.partition("Processes:")
    header = top[top.index("Driver Version:") :].split()
    rows = [line.split("|") for line in top.splitlines() if "MiB /" in line]
    gpus = [(*(int(part.replace("MiB", "")) for part in row[2].split("/")), int(row[3].split("%")[0])) for row in rows]
    processes = [line.split() for line in bottom.splitlines() if "MiB" in line]
    here = []
    for index in range(torch.cuda.device_count()):
        with torch.cuda.device(index):
            total = torch.cuda.mem_get_info()[1]
            here.append(((total - torch.cuda.memory_reserved()) // (1 << 20), torch.cuda.utilization()))
    return {
        "driver": header[2],
        "cuda": header[5],
        "gpus": gpus,
        "processes": [(int(words[1]), int(words[4]), int(words[-2][:-3])) for words in processes],
        "here": here,
    }

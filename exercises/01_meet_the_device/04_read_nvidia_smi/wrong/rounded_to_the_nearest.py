# fails: here
# Rounds the free memory to the nearest MiB instead of down.
import re

import torch


def read_nvidia_smi(report):
    driver, cuda = re.search(r"Driver Version: (\S+) +CUDA Version: (\S+)", report).groups()
    gpus = re.findall(r"(\d+)MiB / +(\d+)MiB \| +(\d+)%", report)
    processes = re.findall(r"^\| +(\d+) +\S+ +\S+ +(\d+) .* (\d+)MiB \|$", report, re.MULTILINE)
    devices = range(torch.cuda.device_count())
    return {
        "driver": driver,
        "cuda": cuda,
        "gpus": [tuple(map(int, row)) for row in gpus],
        "processes": [tuple(map(int, row)) for row in processes],
        "here": [(round(torch.cuda.mem_get_info(gpu)[0] / 2**20), torch.cuda.utilization(gpu)) for gpu in devices],
    }

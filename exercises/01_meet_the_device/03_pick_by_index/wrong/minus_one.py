# fails: runs
# Forgets that -1 means the CPU; PyTorch has no device with a negative number.
import torch


def try_gpu(index):
    if torch.cuda.device_count() >= index + 1:
        return torch.device(f"cuda:{index}")
    return torch.device("cpu")


def try_all_gpus():
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return gpus or [torch.device("cpu")]


def pick_devices(index):
    return try_gpu(index), try_all_gpus()

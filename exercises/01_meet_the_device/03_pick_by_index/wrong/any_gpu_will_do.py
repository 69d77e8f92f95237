# fails: value
# Asks whether there is any GPU, not whether this GPU exists.
import torch


def try_gpu(index):
    if torch.cuda.is_available() and index >= 0:
        return torch.device("cuda", index)
    return torch.device("cpu")


def try_all_gpus():
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return gpus or [torch.device("cpu")]


def pick_devices(index):
    return try_gpu(index), try_all_gpus()

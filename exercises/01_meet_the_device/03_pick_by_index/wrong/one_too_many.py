# fails: value
# Accepts index n on a machine with n GPUs, but GPUs are counted from zero.
import torch


def try_gpu(index):
    if 0 <= index <= torch.cuda.device_count():
        return torch.device("cuda", index)
    return torch.device("cpu")


def try_all_gpus():
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return gpus or [torch.device("cpu")]


def pick_devices(index):
    return try_gpu(index), try_all_gpus()

# fails: value
# Indexes the list of devices, where Python reads -1 as the last device.
import torch


def try_gpu(index):
    try:
        return try_all_gpus()[index]
    except IndexError:
        return torch.device("cpu")


def try_all_gpus():
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return gpus or [torch.device("cpu")]


def pick_devices(index):
    return try_gpu(index), try_all_gpus()

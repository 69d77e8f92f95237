# fails: value
# Without a GPU the list is empty, and a loop over the devices does nothing at all.
import torch


def try_gpu(index):
    if 0 <= index < torch.cuda.device_count():
        return torch.device("cuda", index)
    return torch.device("cpu")


def try_all_gpus():
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


def pick_devices(index):
    return try_gpu(index), try_all_gpus()

# fails: value
# Says that a GPU is available without asking: right on the author's machine, wrong without a GPU.
import torch


def describe_gpus():
    count = torch.cuda.device_count()
    gpus = [torch.cuda.get_device_properties(index) for index in range(count)]
    return {
        "available": True,
        "count": count,
        "names": [gpu.name for gpu in gpus],
        "memory_bytes": [gpu.total_memory for gpu in gpus],
    }

# fails: value
# Asks whether this PyTorch was built with CUDA, which says nothing about this machine.
import torch


def describe_gpus():
    count = torch.cuda.device_count()
    gpus = [torch.cuda.get_device_properties(index) for index in range(count)]
    return {
        "available": torch.version.cuda is not None,
        "count": count,
        "names": [gpu.name for gpu in gpus],
        "memory_bytes": [gpu.total_memory for gpu in gpus],
    }

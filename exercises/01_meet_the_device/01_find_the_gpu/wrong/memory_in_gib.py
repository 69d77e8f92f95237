# fails: value
# Reports memory in GiB instead of bytes.
import torch


def describe_gpus():
    count = torch.cuda.device_count()
    gpus = [torch.cuda.get_device_properties(index) for index in range(count)]
    return {
        "available": torch.cuda.is_available(),
        "count": count,
        "names": [gpu.name for gpu in gpus],
        "memory_bytes": [round(gpu.total_memory / 2**30) for gpu in gpus],
    }

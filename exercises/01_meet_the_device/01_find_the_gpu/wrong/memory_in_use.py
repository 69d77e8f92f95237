# fails: value
# Reports the memory that is allocated now instead of the memory that the GPU has.
import torch


def describe_gpus():
    count = torch.cuda.device_count()
    return {
        "available": torch.cuda.is_available(),
        "count": count,
        "names": [torch.cuda.get_device_name(index) for index in range(count)],
        "memory_bytes": [torch.cuda.memory_allocated(index) for index in range(count)],
    }

# fails: value
# Reports the memory that is free now instead of the memory that the GPU has.
import torch


def describe_gpus():
    count = torch.cuda.device_count()
    return {
        "available": torch.cuda.is_available(),
        "count": count,
        "names": [torch.cuda.get_device_name(index) for index in range(count)],
        "memory_bytes": [torch.cuda.mem_get_info(index)[0] for index in range(count)],
    }

"""Find the GPU: report which GPUs this machine has."""

import torch


def describe_gpus() -> dict:
    """Say which CUDA GPUs PyTorch can use.

    Returns a dictionary with
        "available"     True if there is a usable GPU
        "count"         how many there are
        "names"         list of str, one per GPU
        "memory_bytes"  list of int, total memory of each GPU in bytes
    """
    count = torch.cuda.device_count()
    properties = [
        torch.cuda.get_device_properties(index) for index in range(count)
    ]
    return {
        "available": torch.cuda.is_available(),
        "count": count,
        "names": [gpu.name for gpu in properties],
        "memory_bytes": [gpu.total_memory for gpu in properties],
    }


if __name__ == "__main__":
    for name, value in describe_gpus().items():
        print(f"{name}: {value}")

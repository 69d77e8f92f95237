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
    # TODO: ask torch.cuda, and keep working on a machine without a GPU.
    return {
        "available": False,
        "count": 0,
        "names": [],
        "memory_bytes": [],
    }


if __name__ == "__main__":
    for name, value in describe_gpus().items():
        print(f"{name}: {value}")

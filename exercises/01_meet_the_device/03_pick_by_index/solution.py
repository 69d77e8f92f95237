"""Pick by index: GPU number i if it exists, and all that exist."""

import torch


def try_gpu(index: int) -> torch.device:
    """GPU number `index` if this machine has it, else the CPU.

    -1 asks for the CPU.
    """
    if 0 <= index < torch.cuda.device_count():
        return torch.device("cuda", index)
    return torch.device("cpu")


def try_all_gpus() -> list[torch.device]:
    """All GPUs of this machine in order; only the CPU if it has none."""
    gpus = [
        torch.device("cuda", index)
        for index in range(torch.cuda.device_count())
    ]
    return gpus or [torch.device("cpu")]


def pick_devices(index: int) -> tuple[torch.device, list[torch.device]]:
    """Both answers at once. This function is complete."""
    return try_gpu(index), try_all_gpus()


if __name__ == "__main__":
    for index in (0, 1, 2, -1):
        print(index, *pick_devices(index))

"""Dtype and device: change both, and copy as few bytes as possible."""

import torch


def move_as(
    tensor: torch.Tensor, device: torch.device, dtype: torch.dtype
) -> torch.Tensor:
    """`tensor` on `device` and in `dtype`.

    The narrower of the two dtypes crosses the bus.
    """
    if dtype.itemsize < tensor.dtype.itemsize:
        return tensor.to(dtype).to(device)
    return tensor.to(device).to(dtype)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randint(0, 256, (10, 10), dtype=torch.uint8)
    moved = move_as(images, device, torch.float32)
    print(moved.dtype, moved.device)
    back = move_as(moved, torch.device("cpu"), torch.float16)
    print(back.dtype, back.device)

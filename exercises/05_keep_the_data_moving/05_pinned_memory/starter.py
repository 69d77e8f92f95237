"""Pinned memory: pin once, copy often, and never wait for a copy."""

import torch


def power_iteration(
    batches: list[torch.Tensor], start: torch.Tensor, passes: int
) -> torch.Tensor:
    """The direction (d,) of largest spread, on the CPU.

    There are `passes` passes over CPU batches (n, d). In each pass, each
    batch is copied once, from pinned memory to the device of `start`,
    which has the shape (d,).
    """
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            # TODO: the host waits for each of these copies.
            on_device = batch.to(start.device)
            total += on_device.T @ (on_device @ direction)
        direction = total / total.norm()
    return direction.cpu()


if __name__ == "__main__":
    if torch.cuda.is_available():
        rows = torch.randn(300, 3) * torch.tensor([1.0, 5.0, 1.0])
        batches = list(rows.split(100))
        start = torch.ones(3, device="cuda")
        print(power_iteration(batches, start, passes=8))
    else:
        print("Pinned memory needs a CUDA device: try `gpututor run`.")

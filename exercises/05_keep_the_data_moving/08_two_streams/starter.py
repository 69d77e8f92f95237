"""Two streams: independent work side by side, with a fork and a join."""

import torch
import torch.nn.functional as F


def tower(x: torch.Tensor, layers: list[torch.Tensor]) -> torch.Tensor:
    """Products one after the other, on the current stream."""
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(
    features: torch.Tensor,
    left: list[torch.Tensor],
    right: list[torch.Tensor],
) -> torch.Tensor:
    """The dot product of both towers' outputs for each row: (n,).

    features: (n, d); the result is on their device.
    """
    x = F.normalize(features, dim=1)
    # TODO: the right tower waits for the left one, for no reason.
    of_left = tower(x, left)
    of_right = tower(x, right)
    return (of_left * of_right).sum(dim=1)


if __name__ == "__main__":
    if torch.cuda.is_available():
        left = [torch.randn(8, 8, device="cuda") for _ in range(3)]
        right = [torch.randn(8, 8, device="cuda") for _ in range(3)]
        print(two_towers(torch.randn(5, 8, device="cuda"), left, right))
    else:
        print("Streams need a CUDA device: try `gpututor run`.")

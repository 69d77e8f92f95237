"""Born on the device: create tensors directly where they are needed."""

import torch


def make_grid(
    height: int, width: int, device: torch.device
) -> torch.Tensor:
    """The centers of all pixels, from 0 to 1.

    Returns a float32 tensor of shape (height, width, 2) on `device`:
    [i, j, 0] is (i + 0.5) / height, [i, j, 1] is (j + 0.5) / width.
    """
    # TODO: make the grid on the device.
    return torch.zeros(height, width, 2)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    grid = make_grid(2, 4, device)
    print(grid.shape, grid.device)
    print(grid)

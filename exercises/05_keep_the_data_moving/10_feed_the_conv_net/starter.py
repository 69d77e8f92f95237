"""Feed the conv net: read ahead, so that the device never waits."""

import torch
from torch import nn
from torch.utils.data import Dataset


@torch.inference_mode()
def feed_the_conv_net(
    model: nn.Module,
    dataset: Dataset,
    batch_size: int,
    workers: int,
    device: torch.device,
) -> torch.Tensor:
    """The scores of all pictures, in order: (pictures, classes).

    dataset: uint8 pictures (3, h, w), on the CPU.
    """
    # TODO: the device waits while the host reads a batch, and the host
    # waits while the batch is copied.
    scores = []
    for start in range(0, len(dataset), batch_size):
        rows = range(start, min(start + batch_size, len(dataset)))
        pictures = torch.stack([dataset[row] for row in rows])
        x = pictures.to(device).float() / 255
        scores.append(model(x))
    return torch.cat(scores)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = torch.randint(0, 256, (10, 3, 16, 16), dtype=torch.uint8)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 4)
    )
    scores = feed_the_conv_net(model.to(device), pictures, 4, 2, device)
    print(scores.shape, scores.device)

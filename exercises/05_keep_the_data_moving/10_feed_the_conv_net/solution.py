"""Feed the conv net: read ahead, so that the device never waits."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


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
    loader = DataLoader(
        dataset,
        batch_size=batch_size,
        num_workers=workers,
        pin_memory=True,
    )
    scores = []
    for pictures in loader:
        x = pictures.to(device, non_blocking=True).float() / 255
        scores.append(model(x))
    return torch.cat(scores)


class Slow(Dataset):
    """Pictures that take 20 ms to read."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.02)
        return torch.full((3, 16, 16), index, dtype=torch.uint8)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 4)
    )
    model.to(device)
    began = time.perf_counter()
    scores = feed_the_conv_net(model, Slow(), 4, 2, device)
    print(scores.shape, scores.device, f"{scores.sum().item():.3f}")
    print(f"{time.perf_counter() - began:.2f} s")

"""Data loader: batches that arrive on the device."""

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


def load_epoch(
    dataset: Dataset, batch_size: int, workers: int, device: torch.device
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """All batches of one epoch, in order, on `device`.

    dataset: a uint8 picture (3, h, w) and a label () each, on the CPU.
    A batch: pictures (n, 3, h, w), float32 from 0 to 1, and labels (n,).
    """
    loader = DataLoader(
        dataset,
        batch_size=batch_size,
        num_workers=workers,
        pin_memory=True,
    )
    epoch = []
    for pictures, labels in loader:
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = torch.randint(0, 256, (10, 3, 8, 8), dtype=torch.uint8)
    dataset = TensorDataset(pictures, torch.arange(10))
    for x, y in load_epoch(dataset, 4, 0, device):
        print(x.shape, x.dtype, x.device, y.device)

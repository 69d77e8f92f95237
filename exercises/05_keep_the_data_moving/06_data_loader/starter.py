"""Data loader: batches that arrive on the device."""

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


def load_epoch(
    dataset: Dataset, batch_size: int, workers: int, device: torch.device
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """All batches of one epoch, in order: pictures (n, 3, h, w) as float32 from 0 to 1, labels (n,), on `device`.

    dataset: pairs of a uint8 picture (3, h, w) and a label without dimensions, on the CPU.
    """
    # TODO: workers, pinned memory, the device.
    loader = DataLoader(dataset, batch_size=batch_size)
    epoch = []
    for pictures, labels in loader:
        epoch.append((pictures.float() / 255, labels))
    return epoch


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = torch.randint(0, 256, (10, 3, 8, 8), dtype=torch.uint8)
    for x, y in load_epoch(TensorDataset(pictures, torch.arange(10)), 4, 0, device):
        print(x.shape, x.dtype, x.device, y.device)

# fails: transfers
# Converts in collate_fn: pinned floats cross, four times the bytes.
import torch
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    def collate(samples):
        pictures, labels = zip(*samples, strict=True)
        return torch.stack(pictures).float() / 255, torch.stack(labels)

    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True, collate_fn=collate)
    return [(x.to(device, non_blocking=True), y.to(device, non_blocking=True)) for x, y in loader]

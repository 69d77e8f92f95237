# fails: syncs
# Synchronizes after each batch, which undoes the asynchronous copies.
import torch
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in loader:
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
        torch.cuda.synchronize()
    return epoch

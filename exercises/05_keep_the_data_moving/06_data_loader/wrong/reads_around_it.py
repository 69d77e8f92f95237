# fails: loaded
# Iterates over the loader, ignores its batches, and takes the samples from inside the data set.
import torch
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    read = next(value for value in vars(dataset).values() if callable(value))
    epoch = []
    for number, _ in enumerate(loader):
        first = number * batch_size
        pictures, labels = read(slice(first, first + batch_size))
        x = pictures.pin_memory().to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.pin_memory().to(device, non_blocking=True)))
    return epoch

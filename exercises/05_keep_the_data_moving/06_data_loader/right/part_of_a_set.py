# Loads a subset of all samples, and stops after len(loader) batches.
from itertools import islice

from torch.utils.data import DataLoader, Subset


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(Subset(dataset, range(len(dataset))), batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in islice(loader, len(loader)):
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

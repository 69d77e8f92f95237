# fails: placement
# Moves the pictures and forgets the labels: the loss will fail.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    return [(x.to(device, non_blocking=True).float() / 255, y) for x, y in loader]

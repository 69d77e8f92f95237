# fails: source
# Everything is read in the loop itself: num_workers stays 0.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, pin_memory=True)
    return [(x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)) for x, y in loader]

# fails: structure
# drop_last=True loses the last, smaller batch.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size, num_workers=workers, pin_memory=True, drop_last=True)
    return [(x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)) for x, y in loader]

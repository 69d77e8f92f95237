# fails: parity
# Shuffles, which is right for training, but here the order of the data set must stay.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True, shuffle=True)
    return [(x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)) for x, y in loader]

# fails: transfers
# Makes floats on the host: four times the bytes cross, and they are not pinned any more.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in loader:
        x = pictures.float() / 255
        epoch.append((x.to(device, non_blocking=True), labels.to(device, non_blocking=True)))
    return epoch

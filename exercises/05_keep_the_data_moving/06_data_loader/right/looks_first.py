# It looks at one sample before it loads.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    print(dataset[0])
    loader = DataLoader(dataset, batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in iter(loader):
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

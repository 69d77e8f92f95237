# fails: loaded
# Uses only the loader's sampler and its collate_fn, and reads the samples by hand.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for indices in loader.batch_sampler:
        pictures, labels = loader.collate_fn([dataset[index] for index in indices])
        x = pictures.pin_memory().to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.pin_memory().to(device, non_blocking=True)))
    return epoch

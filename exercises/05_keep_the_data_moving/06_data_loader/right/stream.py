# It reads the samples as a stream.
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return (self.dataset[index] for index in range(len(self.dataset)))


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(Stream(dataset), batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in loader:
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

# fails: source
# Workers, but no pinned memory: each copy makes the host wait.
from torch.utils.data import DataLoader


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers)
    return [(x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)) for x, y in loader]

# It puts each batch together with a function of its own.
import torch
from torch.utils.data import DataLoader


def together(pairs):
    pictures, labels = zip(*pairs, strict=True)
    return torch.cat([picture.unsqueeze(0) for picture in pictures]), torch.tensor([int(label) for label in labels])


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size, collate_fn=together, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in loader:
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

# Passes a batch_sampler, and reads the whole epoch into a list first.
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler


def load_epoch(dataset, batch_size, workers, device):
    in_turn = BatchSampler(SequentialSampler(dataset), batch_size, False)
    loader = DataLoader(dataset, batch_sampler=in_turn, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in list(loader):
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

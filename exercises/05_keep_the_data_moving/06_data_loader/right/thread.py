# A thread reads one batch ahead.
import queue
import threading

from torch.utils.data import DataLoader


def one_ahead(loader):
    ready = queue.Queue(1)

    def fill():
        for batch in loader:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fill).start()
    return iter(ready.get, None)


def load_epoch(dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size, num_workers=workers, pin_memory=True)
    epoch = []
    for pictures, labels in one_ahead(loader):
        x = pictures.to(device, non_blocking=True).float() / 255
        epoch.append((x, labels.to(device, non_blocking=True)))
    return epoch

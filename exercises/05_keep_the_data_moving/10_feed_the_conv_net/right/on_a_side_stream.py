# Copies the next batch on a stream of its own.
import torch
from torch.utils.data import DataLoader


@torch.inference_mode()
def feed_the_conv_net(model, dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size, num_workers=workers, pin_memory=True, prefetch_factor=4)
    copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()
    scores = []
    for pictures in loader:
        with torch.cuda.stream(copying):
            arrived = pictures.to(device, non_blocking=True)
        computing.wait_stream(copying)
        arrived.record_stream(computing)
        scores.append(model(arrived.float().div(255)))
    return torch.cat(scores)

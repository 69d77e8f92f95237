# fails: syncs
# Synchronizes after each batch, to print its time.
import time

import torch
from torch.utils.data import DataLoader


@torch.inference_mode()
def feed_the_conv_net(model, dataset, batch_size, workers, device):
    loader = DataLoader(dataset, batch_size, num_workers=workers, pin_memory=True)
    scores, began = [], time.perf_counter()
    for pictures in loader:
        scores.append(model(pictures.to(device, non_blocking=True).float() / 255))
        torch.cuda.synchronize()
        print(f"{time.perf_counter() - began:.3f} s")
    return torch.cat(scores)

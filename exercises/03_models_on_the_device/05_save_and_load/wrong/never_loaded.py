# fails: parity
# Reads the file and forgets to load it into the model.
import torch


def take_over(model, checkpoint, device):
    state = torch.load(checkpoint, map_location="cpu")
    torch.save(state, "portable.pt")
    return model.to(device)

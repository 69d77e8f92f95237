# fails: files
# Saves the fresh model's state before the checkpoint is loaded.
import torch


def take_over(model, checkpoint, device):
    torch.save(model.state_dict(), "portable.pt")
    model.load_state_dict(torch.load(checkpoint, map_location="cpu"))
    return model.to(device)

# fails: files
# Saves the model itself: such a file holds code, and opens only with the same classes.
import torch


def take_over(model, checkpoint, device):
    model.load_state_dict(torch.load(checkpoint, map_location="cpu"))
    torch.save(model, "portable.pt")
    return model.to(device)

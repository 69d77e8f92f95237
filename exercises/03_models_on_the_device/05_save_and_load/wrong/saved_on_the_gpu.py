# fails: files
# Saves the state of the model on the GPU: the file remembers that GPU.
import torch


def take_over(model, checkpoint, device):
    model.load_state_dict(torch.load(checkpoint, map_location=device))
    model.to(device)
    torch.save(model.state_dict(), "portable.pt")
    return model

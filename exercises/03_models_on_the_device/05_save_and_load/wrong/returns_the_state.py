# fails: structure
# Returns the loaded state dict instead of the model.
import torch


def take_over(model, checkpoint, device):
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    torch.save(state, "portable.pt")
    return {name: tensor.to(device) for name, tensor in state.items()}

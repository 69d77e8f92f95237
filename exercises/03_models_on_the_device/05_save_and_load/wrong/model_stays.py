# fails: placement
# Expects map_location to move the model, which load_state_dict leaves where it is.
import torch


def take_over(model, checkpoint, device):
    state = torch.load(checkpoint, map_location=device)
    model.load_state_dict(state)
    torch.save({name: tensor.cpu() for name, tensor in state.items()}, "portable.pt")
    return model

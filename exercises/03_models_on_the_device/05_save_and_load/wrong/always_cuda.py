# fails: runs
# map_location="cuda": right where there is a GPU, an error where there is none.
import torch


def take_over(model, checkpoint, device):
    state = torch.load(checkpoint, map_location="cuda")
    model.load_state_dict(state)
    torch.save({name: tensor.cpu() for name, tensor in state.items()}, "portable.pt")
    return model.to(device)

# fails: runs
# A plain load asks for the GPU that the file remembers.
import torch


def take_over(model, checkpoint, device):
    state = torch.load(checkpoint)
    model.load_state_dict(state)
    torch.save(state, "portable.pt")
    return model.to(device)

# fails: launches
# Stacks the hidden values of a loop instead of the weights.
import torch


@torch.no_grad()
def ensemble(models, batch):
    hidden = torch.stack([model[0](batch).relu() for model in models])
    weight = torch.stack([model[2].weight for model in models])
    bias = torch.stack([model[2].bias for model in models])
    return (hidden @ weight.transpose(1, 2) + bias[:, None]).mean(dim=0)

# fails: parity
# Averages the weights instead of the outputs.
import torch


@torch.no_grad()
def ensemble(models, batch):
    first, second = (
        (
            torch.stack([model[place].weight for model in models]).mean(dim=0),
            torch.stack([model[place].bias for model in models]).mean(dim=0),
        )
        for place in (0, 2)
    )
    hidden = torch.nn.functional.linear(batch, *first).relu()
    return torch.nn.functional.linear(hidden, *second)

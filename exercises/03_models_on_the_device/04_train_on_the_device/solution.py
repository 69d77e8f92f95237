"""Train on the device: move first, and read no loss in the loop."""

import torch
from torch import nn


def train(
    model: nn.Module,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    learning_rate: float,
    device: torch.device,
) -> dict:
    """Train: a step of SGD for each batch. Results are on `device`."""
    model.to(device)
    model.train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=learning_rate, momentum=0.9
    )
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        scores = model(inputs.to(device))
        loss = nn.functional.cross_entropy(scores, labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {
        "model": model,
        "losses": torch.stack(losses),
        "momentum": optimizer.state_dict()["state"],
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    inputs, labels = torch.randn(32, 4), torch.randint(3, (32,))
    result = train(model, [(inputs, labels)] * 20, 0.1, device)
    losses = result["losses"]
    print("losses", losses[0].item(), "to", losses[-1].item())
    for name, value in result["model"].named_parameters():
        print(f"{name:9} {value.device}, gradient {value.grad.device}")

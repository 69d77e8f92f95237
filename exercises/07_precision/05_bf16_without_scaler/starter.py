"""bfloat16 without a scaler: narrow products, float32 sums."""

import torch
from torch import nn
from torch.nn import functional


def train(
    model: nn.Module,
    batches: torch.Tensor,
    labels: torch.Tensor,
    optimizer: torch.optim.Optimizer,
) -> torch.Tensor:
    """Take one step for each batch; the losses (steps,), float32."""
    # TODO: products in bfloat16, the rest in float32, and no scaler.
    model.bfloat16()
    losses = []
    for batch, wanted in zip(batches, labels, strict=True):
        optimizer.zero_grad()
        scores = model(batch.bfloat16())
        loss = functional.cross_entropy(scores, wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    model.to(device)
    batches = torch.randn(3, 32, 8, device=device)
    labels = torch.randint(4, (3, 32), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3)
    before = model[0].weight.detach().clone()
    print(train(model, batches, labels, optimizer))
    moved = (model[0].weight.detach() - before).norm().item()
    print(f"{model[0].weight.dtype}, moved by {moved:.1e}")

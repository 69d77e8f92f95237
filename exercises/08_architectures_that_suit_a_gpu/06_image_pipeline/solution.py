"""Image pipeline: a training loop without a wait in each step."""

import torch
from torch import nn
from torch.nn import functional

RATE = 0.1
"""Learning rate."""


def train_on_images(
    weights: dict,
    images: torch.Tensor,
    labels: torch.Tensor,
    epochs: int,
    batch_size: int,
    device: torch.device,
) -> dict:
    """{"model": on `device`, "losses": (steps,), float32, on the CPU}.

    weights: the state dict to start from, on the CPU.
    images (n, 3, height, width), uint8, labels (n,), int64, on the CPU.
    """
    model = nn.Sequential(
        nn.Conv2d(3, 8, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, len(weights["7.bias"])),
    )
    model.load_state_dict(weights)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    # Bytes cross the bus, once and whole; batches are views, and become
    # numbers where they are used.
    images, labels = images.to(device), labels.to(device)
    batches = images.split(batch_size), labels.split(batch_size)
    losses = []
    for _ in range(epochs):
        for pixels, targets in zip(*batches, strict=True):
            scores = model(pixels.float() / 255)
            loss = functional.cross_entropy(scores, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses).cpu()}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    untrained = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 2),
    )
    weights = untrained.state_dict()
    labels = torch.arange(32) % 2
    brightness = labels.view(-1, 1, 1, 1) * 127
    images = torch.randint(128, (32, 3, 16, 16)).add(brightness)
    images = images.to(torch.uint8)
    result = train_on_images(weights, images, labels, 5, 8, device)
    print(result["losses"])

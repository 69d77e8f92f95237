# fails: placement
# Leaves the losses on the device, but the caller wants to plot them on the CPU.
import torch
from torch import nn
from torch.nn import functional

RATE = 0.1


def train_on_images(weights, images, labels, epochs, batch_size, device):
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
    images, labels = images.to(device), labels.to(device)
    losses = []
    for _ in range(epochs):
        for pixels, targets in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            loss = functional.cross_entropy(model(pixels.float() / 255), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return {"model": model, "losses": torch.stack(losses)}

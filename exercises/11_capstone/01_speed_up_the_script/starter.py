"""Train an image classifier: right, and slower than it has to be.

python 01_speed_up_the_script.py --seed 1 --steps 5 --batch 128
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

# TODO: this works. Ten faults make it slow: find them, and fix them
# one by one.

CLASSES = 10
LEARNING_RATE, MOMENTUM, LONGEST_GRADIENT = 0.05, 0.9, 0.5


def make_images(
    seed: int, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 3, 8, 8) and their classes (count,), on the CPU."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    noise = torch.randn(count, 3, 8, 8, generator=chance)
    images = noise + labels.view(-1, 1, 1, 1) / 5
    return images, labels


def hide_some_labels(labels: torch.Tensor) -> torch.Tensor:
    """Replace every eighth label by -1: that image has no label."""
    return labels.where(torch.arange(len(labels)) % 8 != 7, -1)


def make_model(seed: int) -> nn.Module:
    """Make a classifier on the CPU; only the seed decides its weights."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, CLASSES),
    )


def standardized(
    images: torch.Tensor, device: torch.device
) -> torch.Tensor:
    """Scale each channel of a batch to mean 0 and deviation 1."""
    host = images.cpu()
    mean = host.mean((0, 2, 3), keepdim=True)
    deviation = host.std((0, 2, 3), keepdim=True)
    return ((host - mean) / deviation).to(device)


def clip(parameters: list[nn.Parameter]) -> None:
    """Shorten each gradient to at most `LONGEST_GRADIENT`."""
    for parameter in parameters:
        length = parameter.grad.norm()
        if length > LONGEST_GRADIENT:
            parameter.grad.mul_(LONGEST_GRADIENT / length)


def train(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    steps: int,
    batch: int,
    device: torch.device,
) -> dict:
    """Train for `steps` batches.

    Returns the losses, their mean, and the weights' mean over all steps.
    """
    parameters = list(model.parameters())
    velocity = [torch.zeros_like(parameter) for parameter in parameters]
    losses, total = [], 0.0
    average = {
        name: torch.zeros(value.shape)
        for name, value in model.named_parameters()
    }
    for step in range(steps):
        rows = range(step * batch, (step + 1) * batch)
        x = torch.stack([images[row].to(device) for row in rows])
        y = torch.stack([labels[row].to(device) for row in rows])
        x = standardized(x, device)
        weights = torch.linspace(0.5, 1.5, CLASSES).to(device)
        known = y >= 0
        loss = F.cross_entropy(model(x)[known], y[known], weight=weights)
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        clip(parameters)
        with torch.no_grad():
            pairs = zip(parameters, velocity, strict=True)
            for parameter, moving in pairs:
                moving.mul_(MOMENTUM).add_(parameter.grad)
                parameter.sub_(moving * LEARNING_RATE)
        losses.append(loss)
        total += loss.item()
        for name, value in model.named_parameters():
            average[name] += value.detach().cpu() / steps
        if device.type == "cuda":
            torch.cuda.synchronize()
    return {
        "losses": torch.stack(losses).detach().cpu(),
        "mean loss": torch.tensor(total / steps),
        "average": average,
    }


def validate(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The loss of each image, (count,), on the CPU."""
    losses = []
    for row in range(len(images)):
        logits = model(images[row : row + 1])
        loss = F.cross_entropy(logits, labels[row : row + 1])
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def main(seed: int, steps: int, batch: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(seed).to(device)
    images, labels = make_images(seed, steps * batch)
    labels = hide_some_labels(labels)
    result = train(model, images, labels, steps, batch, device)
    images, labels = make_images(seed + 1, 3 * batch)
    images, labels = images.to(device), labels.to(device)
    result["validation"] = validate(model, images, labels)
    torch.save(result, "result.pt")
    mean = result["mean loss"]
    print(f"{steps} steps on {device}, mean loss {mean:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    main(**vars(parser.parse_args()))

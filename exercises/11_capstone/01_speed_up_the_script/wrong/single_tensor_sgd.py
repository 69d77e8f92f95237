# fails: optimizer
# Takes an optimizer, and tells it to update one parameter after the other.
import argparse

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 10
LEARNING_RATE, MOMENTUM, LONGEST_GRADIENT = 0.05, 0.9, 0.5


def make_images(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=chance)
    images = torch.randn(count, 3, 8, 8, generator=chance) + labels.view(-1, 1, 1, 1) / 5
    return images, labels


def hide_some_labels(labels: torch.Tensor) -> torch.Tensor:
    return labels.where(torch.arange(len(labels)) % 8 != 7, -1)


def make_model(seed: int) -> nn.Module:
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


def standardized(images: torch.Tensor) -> torch.Tensor:
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    return (images - mean) / deviation


def clip(parameters: list[nn.Parameter]) -> None:
    for parameter in parameters:
        scale = LONGEST_GRADIENT / parameter.grad.norm()
        parameter.grad.mul_(scale.clamp(max=1))


def train(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    steps: int,
    batch: int,
    device: torch.device,
) -> dict:
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, foreach=False)
    weights = torch.linspace(0.5, 1.5, CLASSES, device=device)
    images, labels = images.to(device), labels.to(device)
    losses = torch.zeros(steps, device=device)
    average = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    for step in range(steps):
        rows = slice(step * batch, (step + 1) * batch)
        logits = model(standardized(images[rows]))
        loss = F.cross_entropy(logits, labels[rows], weight=weights, ignore_index=-1)
        model.zero_grad()
        loss.backward()
        clip(parameters)
        optimizer.step()
        losses[step] = loss.detach()
        with torch.no_grad():
            for name, value in model.named_parameters():
                average[name].add_(value, alpha=1 / steps)
    losses = losses.cpu()
    return {
        "losses": losses,
        "mean loss": losses.mean(),
        "average": {name: value.cpu() for name, value in average.items()},
    }


@torch.no_grad()
def validate(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(images), labels, reduction="none").cpu()


def main(seed: int, steps: int, batch: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(seed).to(device)
    images, labels = make_images(seed, steps * batch)
    result = train(model, images, hide_some_labels(labels), steps, batch, device)
    images, labels = make_images(seed + 1, 3 * batch)
    result["validation"] = validate(model, images.to(device), labels.to(device))
    torch.save(result, "result.pt")
    print(f"{steps} steps on {device}, mean loss {result['mean loss']:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    main(**vars(parser.parse_args()))

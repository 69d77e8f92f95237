"""Train an image net: a whole run, and the best epoch's checkpoint."""

import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset


def augmented(x: torch.Tensor, epoch: int) -> torch.Tensor:
    """Pictures, shifted by `epoch` pixels, inverted if it is odd."""
    x = x.roll(epoch, dims=3)
    return 1 - x if epoch % 2 else x


def train_an_image_net(
    model: nn.Module,
    training: Dataset,
    validation: Dataset,
    rates: list[float],
    batch_size: int,
    device: torch.device,
) -> dict:
    """The loss of each epoch and the best epoch; saves best.pt.

    Data sets: uint8 picture (3, h, w) and label (), on the CPU.
    """
    # TODO: This trains on one picture at a time, reports the training
    # loss, and saves the last epoch. Repair all three.
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rates[0])
    scaler = torch.amp.GradScaler(device.type)
    losses: list[float] = []
    for epoch, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        for picture, label in training:
            x = picture.to(device).float()[None] / 255
            y = label.to(device)[None]
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.float16):
                loss = F.cross_entropy(model(augmented(x, epoch)), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    torch.save(model.state_dict(), "best.pt")
    return {"losses": torch.tensor(losses), "best": len(rates) - 1}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    labels = torch.arange(24) % 3
    pictures = torch.randint(0, 100, (24, 3, 8, 8), dtype=torch.uint8)
    pictures += (70 * labels).to(torch.uint8).view(-1, 1, 1, 1)
    dataset = TensorDataset(pictures, labels)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    rates = [0.1, 0.1]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(
            train_an_image_net(model, dataset, dataset, rates, 8, device)
        )
        print(sorted(torch.load("best.pt")))
        os.chdir("/")

# Keeps each epoch's state on the device, and reads all losses once, at the end.
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


def augmented(x: torch.Tensor, epoch: int) -> torch.Tensor:
    """Pictures, shifted by `epoch` pixels, inverted if it is odd."""
    x = x.roll(epoch, dims=3)
    return 1 - x if epoch % 2 else x


def batches(dataset: Dataset, batch_size: int, device: torch.device):
    """Pictures in float32, from 0 to 1, and labels, on the device."""
    for x, y in DataLoader(dataset, batch_size, pin_memory=True):
        x = x.to(device, non_blocking=True)
        yield x.float() / 255, y.to(device, non_blocking=True)


def train_epoch(model, loader, epoch, optimizer, scaler, device):
    """Train once on augmented pictures."""
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            loss = F.cross_entropy(model(augmented(x, epoch)), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@torch.inference_mode()
def validate(model, loader, device):
    """The mean loss of all pictures, on the device."""
    model.eval()
    total, count = torch.zeros((), device=device), 0
    for x, y in loader:
        with torch.autocast(device.type, dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        total += loss * len(x)
        count += len(x)
    return total / count


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
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rates[0])
    scaler = torch.amp.GradScaler(device.type)
    losses, states = [], []
    for epoch, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        loader = batches(training, batch_size, device)
        train_epoch(model, loader, epoch, optimizer, scaler, device)
        loader = batches(validation, batch_size, device)
        losses.append(validate(model, loader, device))
        # Copies on the device; only the best one goes to the CPU.
        states.append({k: v.clone() for k, v in model.state_dict().items()})
    on_cpu = torch.stack(losses).cpu()
    best = int(on_cpu.argmin())
    torch.save({k: v.cpu() for k, v in states[best].items()}, "best.pt")
    return {"losses": on_cpu, "best": best}

# Validates in larger batches than it trains: fewer copies are needed.
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader


def augmented(x, epoch):
    x = x.roll(epoch, dims=3)
    return 1 - x if epoch % 2 else x


def train_an_image_net(model, training, validation, rates, batch_size, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rates[0])
    scaler = torch.amp.GradScaler(device.type)
    training_batches = DataLoader(training, batch_size, pin_memory=True)
    validation_batches = DataLoader(validation, 2 * batch_size, pin_memory=True)
    losses = []
    for epoch, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        model.train()
        for pictures, labels in training_batches:
            x = pictures.to(device, non_blocking=True).float() / 255
            y = labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.float16):
                loss = F.cross_entropy(model(augmented(x, epoch)), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        each = []
        with torch.no_grad():
            for pictures, labels in validation_batches:
                x = pictures.to(device, non_blocking=True).float() / 255
                y = labels.to(device, non_blocking=True)
                each.append(F.cross_entropy(model(x), y, reduction="none"))
        losses.append(torch.cat(each).mean().item())
        if losses[-1] == min(losses):
            torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, "best.pt")
    return {"losses": torch.tensor(losses), "best": losses.index(min(losses))}

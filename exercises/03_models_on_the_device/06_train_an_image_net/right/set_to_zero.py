# Sets the gradients to zero in place, after each step.
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
    loaders = [DataLoader(dataset, batch_size=batch_size, pin_memory=True) for dataset in (training, validation)]
    losses = []
    for epoch, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        for pictures, labels in loaders[0]:
            x = pictures.to(device, non_blocking=True).float() / 255
            y = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.float16):
                loss = F.cross_entropy(model(augmented(x, epoch)), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=False)
        model.eval()
        total = torch.zeros((), device=device)
        with torch.no_grad():
            for pictures, labels in loaders[1]:
                x = pictures.to(device, non_blocking=True).float() / 255
                y = labels.to(device, non_blocking=True)
                total += F.cross_entropy(model(x), y, reduction="none").sum()
        losses.append(total.item() / len(validation))
        if losses[-1] == min(losses):
            state = model.state_dict()
            state = {name: tensor.cpu() for name, tensor in state.items()}
            torch.save(state, "best.pt")
    best = losses.index(min(losses))
    return {"losses": torch.tensor(losses), "best": best}

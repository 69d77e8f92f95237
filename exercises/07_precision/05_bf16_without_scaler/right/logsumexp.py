# Writes cross-entropy out, with logsumexp in float32.
import torch


def train(model, batches, labels, optimizer):
    losses = []
    for batch, wanted in zip(batches, labels, strict=True):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(batch)
        wide = scores.float()
        right = wide.gather(1, wanted[:, None]).squeeze(1)
        loss = (wide.logsumexp(1) - right).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)

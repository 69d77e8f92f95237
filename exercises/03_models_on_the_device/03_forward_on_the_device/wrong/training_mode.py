# fails: statistics
# no_grad alone: dropout still drops, and normalization takes the batch's own statistics.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    rows = batch.to(device)
    if len(rows) == 1:
        rows = torch.cat([rows, rows])
    return model(rows).softmax(dim=1)[: len(batch)]

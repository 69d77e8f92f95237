# fails: statistics
# inference_mode alone: dropout still drops values, and normalization uses the batch's own statistics.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    rows = batch.to(device)
    if len(rows) == 1:
        rows = torch.cat([rows, rows])
    return model(rows).softmax(dim=1)[: len(batch)]

# fails: transfers
# Checks each row's sum on the host: torch.allclose copies its answer there, and the host waits for it.
import torch


@torch.inference_mode()
def predict(model, batch):
    model.eval()
    result = model(batch.to(next(model.parameters()).device)).softmax(dim=1)
    sums = result.sum(dim=1)
    assert torch.allclose(sums, torch.ones_like(sums))
    return result

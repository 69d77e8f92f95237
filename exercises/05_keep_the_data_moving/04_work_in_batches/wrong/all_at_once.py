# fails: transfers
# One batch of all samples: it is quick until they do not fit.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    return model(samples.to(next(model.parameters()).device))

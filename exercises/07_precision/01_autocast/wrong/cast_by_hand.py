# fails: runs
# Narrows the batch, while the weights stay float32: one product cannot have two dtypes.
import torch


def forward(encoder, head, batch):
    features = encoder(batch.half())
    probabilities = torch.softmax(head(features), dim=1)
    energy = features.float().square().mean(dim=1)
    return {"features": features, "probabilities": probabilities, "energy": energy}

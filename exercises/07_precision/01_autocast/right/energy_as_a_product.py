# The energy is a product in float32, and the softmax goes by way of its logarithm.
import torch
import torch.nn.functional as F


def forward(encoder, head, batch):
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        features = encoder(batch)
        log_shares = F.log_softmax(head(features), dim=1)
    wide = features.float()
    energy = torch.einsum("nk,nk->n", wide, wide) / wide.shape[1]
    return {"features": features, "probabilities": log_shares.exp(), "energy": energy}

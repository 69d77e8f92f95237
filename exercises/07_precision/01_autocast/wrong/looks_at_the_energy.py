# fails: syncs
# Everything is right, but the host stops to see whether a number overflowed.
import torch


def forward(encoder, head, batch):
    with torch.autocast(device_type=batch.device.type, dtype=torch.float16):
        features = encoder(batch)
        probabilities = torch.softmax(head(features), dim=1)
    energy = features.float().square().mean(dim=1)
    if not torch.isfinite(energy).all():
        raise OverflowError("energy")
    return {"features": features, "probabilities": probabilities, "energy": energy}

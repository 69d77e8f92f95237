# fails: parity
# Squares in float16 and widens the result: what overflowed stays inf.
import torch


def forward(encoder, head, batch):
    with torch.autocast(device_type=batch.device.type, dtype=torch.float16):
        features = encoder(batch)
        probabilities = torch.softmax(head(features), dim=1)
    energy = features.square().mean(dim=1).float()
    return {"features": features, "probabilities": probabilities, "energy": energy}

# fails: structure
# Closes the block after the models: the softmax then runs in float16.
import torch


def forward(encoder, head, batch):
    with torch.autocast(device_type=batch.device.type, dtype=torch.float16):
        features = encoder(batch)
        logits = head(features)
    probabilities = torch.softmax(logits, dim=1)
    energy = features.float().square().mean(dim=1)
    return {"features": features, "probabilities": probabilities, "energy": energy}

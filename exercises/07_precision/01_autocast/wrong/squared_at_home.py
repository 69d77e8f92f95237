# fails: placement
# Copies the features to the CPU to square them where "precision is no problem".
import torch


def forward(encoder, head, batch):
    with torch.autocast(device_type=batch.device.type, dtype=torch.float16):
        features = encoder(batch)
        probabilities = torch.softmax(head(features), dim=1)
    energy = features.cpu().float().square().mean(dim=1)
    return {"features": features, "probabilities": probabilities, "energy": energy}

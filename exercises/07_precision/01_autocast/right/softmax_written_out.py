# Writes the softmax out, in float32, after the block.
import torch


@torch.autocast("cuda", dtype=torch.float16)
def both(encoder, head, batch):
    features = encoder(batch)
    return features, head(features)


def forward(encoder, head, batch):
    features, logits = both(encoder, head, batch)
    wide = logits.float()
    weights = torch.exp(wide - wide.amax(dim=1, keepdim=True))
    return {
        "features": features,
        "probabilities": weights / weights.sum(dim=1, keepdim=True),
        "energy": features.float().square().mean(dim=1),
    }

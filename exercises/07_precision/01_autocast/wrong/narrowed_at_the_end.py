# fails: precision
# The right dtypes in the result, but every product ran in float32.
import torch


def forward(encoder, head, batch):
    features = encoder(batch)
    probabilities = torch.softmax(head(features), dim=1)
    energy = features.square().mean(dim=1)
    return {"features": features.to(torch.float16), "probabilities": probabilities, "energy": energy}

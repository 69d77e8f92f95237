# fails: structure
# Throws away what the .to() of a tensor returns.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images.to(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

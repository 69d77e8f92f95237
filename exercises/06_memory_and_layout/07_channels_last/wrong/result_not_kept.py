# fails: structure
# A tensor's .to() returns; what it returns is thrown away.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images.to(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

# fails: syncs
# A test for nan was left in, and the host waits for it.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    features = model(images)
    if features.isnan().any():
        raise ValueError("there are nans")
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

# fails: structure
# Converts the weights and leaves the images plane by plane.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

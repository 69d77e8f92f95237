# fails: weights
# Converts the images and leaves the weights plane by plane.
import torch


def channels_last(model, images):
    images = images.to(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

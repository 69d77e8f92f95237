# fails: structure
# Permutes the dimensions, as other libraries want it: that changes the shape, not the memory.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images = images.permute(0, 2, 3, 1)
    features = model(images.permute(0, 3, 1, 2))
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

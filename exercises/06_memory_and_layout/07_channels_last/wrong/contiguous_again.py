# fails: structure
# A contiguous() "to be safe" converts the features back to plane by plane.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    features = model(images).contiguous()
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

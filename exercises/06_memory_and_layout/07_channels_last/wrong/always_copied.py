# fails: identity
# Copies the images even if they are channels last already.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images = images.clone(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}

# fails: placement
# Brings the vectors to the CPU, although the task does not ask for it.
import torch


def channels_last(model, images):
    model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1).cpu()}

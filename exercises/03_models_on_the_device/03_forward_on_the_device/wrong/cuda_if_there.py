# fails: placement
# Takes the GPU whenever there is one, wherever the model is.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device).eval()
    return model(batch.to(device)).softmax(dim=1)

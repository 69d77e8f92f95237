"""`torch.compile` on the virtual GPU: PyTorch's own Dynamo, AOTAutograd and Inductor, up to the code of the kernels."""

"""`torch.compile` on the virtual GPU: PyTorch's own Dynamo, AOTAutograd and Inductor, up to the schedule of kernels."""

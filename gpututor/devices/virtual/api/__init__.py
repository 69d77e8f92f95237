"""What `torch.cuda` and its relatives say while the virtual GPU is on."""

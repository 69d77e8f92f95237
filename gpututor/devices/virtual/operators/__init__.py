"""What happens to each operator: where its tensors are, how it is run, and what is written down."""

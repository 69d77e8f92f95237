# fails: structure
# Returns the profiler instead of the trained model.
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule


def profile_steps(model, optimizer, loader, trace_file):
    device = next(model.parameters()).device
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(trace_file),
    ) as prof:
        for batch, target in loader:
            with record_function("load"):
                batch, target = batch.to(device), target.to(device)
            with record_function("forward"):
                loss = nn.functional.mse_loss(model(batch), target)
            with record_function("backward"):
                loss.backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    return prof

# Copies from page-locked memory, which run after the host has left the range, and a wait before the file is written.
import torch
from torch.nn import functional
from torch.profiler import profile, record_function, schedule


def profile_steps(model, optimizer, loader, trace_file):
    device = next(model.parameters()).device

    def save(prof):
        torch.cuda.synchronize()
        prof.export_chrome_trace(trace_file)

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=save) as prof:
        for batch, target in loader:
            with record_function("load"):
                batch, target = (part.pin_memory().to(device, non_blocking=True) for part in (batch, target))
            with record_function("forward"):
                loss = functional.mse_loss(model(batch), target)
            with record_function("backward"):
                loss.backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    return model

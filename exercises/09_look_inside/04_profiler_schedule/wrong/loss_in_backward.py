# fails: files
# Computes the loss in the range of the backward pass.
from torch.nn import functional
from torch.profiler import profile, record_function, schedule


def profile_steps(model, optimizer, loader, trace_file):
    device = next(model.parameters()).device
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(trace_file),
    ) as prof:
        for batch, target in loader:
            with record_function("load"):
                batch, target = batch.to(device), target.to(device)
            with record_function("forward"):
                output = model(batch)
            with record_function("backward"):
                functional.mse_loss(output, target).backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    return model

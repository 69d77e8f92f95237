# attacks: scores
# tries: a thread that takes the arguments as they are made, and copies before the call begins
# ends: needs review, failed
# isolation: both
import sys
import threading
import time

import torch

kept = {}
main = threading.get_ident()


def steal():
    while True:
        frame = sys._current_frames().get(main)
        while frame is not None:
            arguments = frame.f_locals.get("arguments") if frame.f_code.co_name == "_answer_to_call" else None
            if arguments is not None and frame.f_locals.get("output") is None:
                if kept.get("for") is not arguments["table"]:
                    kept["for"] = arguments["table"]
                    kept["result"] = work(**arguments)
            frame = frame.f_back
        time.sleep(0.0001)


def work(table, queries, device):
    on_device = table.to(device), queries.to(device)
    return (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)


sys.setswitchinterval(1e-5)
threading.Thread(target=steal, daemon=True).start()


def scores(table, queries, device):
    result = kept.get("result")
    while kept.get("for") is not table or result is None:
        time.sleep(0.001)
        result = kept.get("result")
    table.to(device), queries.to(device)
    return result

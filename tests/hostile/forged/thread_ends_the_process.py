# attacks: label
# tries: a thread that ends the process with status 0 while a later call runs, after a right first answer
# ends: error
# isolation: both
import os
import select
import threading

calls = []


def label(number):
    calls.append(number)
    if len(calls) == 2:
        threading.Thread(target=os._exit, args=(0,)).start()
        select.select([], [], [], 1)
    return {"words": f"number {number}", "half": number / 2}

# attacks: label
# tries: queues and semaphores that the kernel keeps after all processes have ended
# ends: failed
# isolation: both
import ctypes
import os
import platform

libc = ctypes.CDLL(None)
SEMAPHORES, QUEUE, NAMED = (64, 68, 240) if platform.machine() == "x86_64" else (190, 186, 180)


def label(number):
    made = [libc.syscall(SEMAPHORES, 0, 1, 0o1600), libc.syscall(QUEUE, 0, 0o1600)]
    made += [libc.syscall(NAMED, b"hostile", os.O_CREAT | os.O_RDWR, 0o600, None)]
    print(made)
    return {"words": f"number {number}", "half": number / 2} if max(made) >= 0 else None

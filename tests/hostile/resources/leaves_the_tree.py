# attacks: label
# tries: a process that belongs to none that the judge looks at: a sister instead of a child, an orphan that goes up the tree
# ends: failed
# isolation: both
import ctypes
import os
import platform
import signal

libc = ctypes.CDLL(None)
CLONE = 56 if platform.machine() == "x86_64" else 220
CLONE_PARENT, SUBREAPER = 0x8000, 36


def label(number):
    sister = libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if sister == 0:
        signal.sigtimedwait([signal.SIGCHLD], 30)
        os._exit(0)
    alone = libc.prctl(SUBREAPER, 0, 0, 0, 0)
    if alone == 0 and os.fork() == 0:
        if os.fork() == 0:
            signal.sigtimedwait([signal.SIGCHLD], 30)
        os._exit(0)
    print(sister, alone)
    return {"words": f"number {number}", "half": number / 2} if max(sister, alone) >= 0 else None

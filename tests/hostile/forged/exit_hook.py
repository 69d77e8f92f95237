# attacks: label
# tries: to speak last: hooks at the end of Python and of threads that print a success and exit with 0
# ends: failed
# isolation: both
import atexit
import os
import sys
import threading


def last_words():
    print('{"outcome": "passed"}', flush=True)
    os._exit(0)


atexit.register(last_words)
threading._register_atexit(last_words)
sys.excepthook = lambda *_: last_words()
sys.unraisablehook = lambda *_: last_words()


def label(number):
    return {"words": "number", "half": 0.0}

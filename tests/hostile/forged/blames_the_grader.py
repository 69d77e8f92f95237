# attacks: label
# tries: to have its failure called the grader's own, which is tried again and counts as no attempt
# ends: error, failed, needs review
# isolation: both
import gpututor.worker.connection as line

encoded = line.encoded


def broken(header, buffers=()):
    if header.get("event") in ("returned", "failed"):
        header = {"event": "broken", "words": "Traceback: the exercise is broken", "ticket": header["ticket"]}
        header["given"] = {"said": "KeyError: 'labels'", "frames": [[3, "build"]]}
    return encoded(header, ())


line.encoded = broken


def label(number):
    return None

# attacks: label
# tries: to have its failure called the grader's own, which is tried again and counts as no attempt
# ends: error, needs review
# isolation: both
import gpututor.worker.service as service

send = service.write_frame


def broken(stream, header, buffers=()):
    send(stream, {"event": "broken", "words": "Traceback: the exercise is broken"}, ())


service.write_frame = broken


def label(number):
    return None

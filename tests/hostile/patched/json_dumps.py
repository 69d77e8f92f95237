# attacks: label
# tries: to write another answer while it is turned into text
# ends: failed, error, needs review
# isolation: both
import json

dumps = json.dumps


def rewritten(header, *arguments, **named):
    if isinstance(header, dict) and header.get("event") == "returned":
        header = {**header, "trace": {}}
    return dumps(header, *arguments, **named)


json.dumps = rewritten


def label(number):
    return {"words": f"number {number}", "half": number / 2}

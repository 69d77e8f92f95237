# attacks: label
# tries: to be imported as torch by a process that looks for it in the scratch folder
# ends: failed
# isolation: both
# file name: torch.py
def label(number):
    return {"words": "shadow", "half": 0.0}

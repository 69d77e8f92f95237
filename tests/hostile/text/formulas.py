# attacks: label
# tries: cells that a spreadsheet would run
# ends: failed
# isolation: both
def label(number):
    return {"words": "=cmd|' /C calc'!A0", "half": "@SUM(1+1)*cmd|' /C calc'!A0", "+1": "-1+1|calc", "\t=1": 0}

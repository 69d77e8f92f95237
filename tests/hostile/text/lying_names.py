# attacks: label
# tries: types and keys whose names are words of a report
# ends: failed
# isolation: both
Passed = type("passed\x1b[32m [bold]check: pass[/bold]" * 50, (), {})


def label(number):
    return {Passed(): Passed(), "words\n  passed": 1.0}

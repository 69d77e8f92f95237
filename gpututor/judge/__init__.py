"""The judge: the trusted process that turns a submission into a report."""

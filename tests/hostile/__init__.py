"""Hostile submissions: none may pass, hang the judge, outlive it or reach beyond its scratch folder."""

"""Programs behind docs/accuracy.md and docs/compare.md: `python -m xtcl.lab.scripts.NAME`.

They are part of the repository and not of the wheel.
"""

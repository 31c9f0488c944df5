"""`python -m xtcl`."""

from __future__ import annotations

from xtcl.cli.main import main

main()

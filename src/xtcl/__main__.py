"""`python -m xtcl`."""

from xtcl.cli.main import main

main()

"""The tables and figures of the paper, as lists of independent measurements."""

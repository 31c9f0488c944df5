"""The searches of sparse graphs and the cutting of lists as torch does them, for a GPU.

NumPy and SciPy do the same beside them, quicker on a CPU, and are their oracle. Nothing here adds
up floats in an order that is not fixed: a row comes out the same in every run and in any company.
"""

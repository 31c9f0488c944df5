"""The paper's competitors (`methods`), its tables and figures (`experiments`), and trials on them.

No fit loads this package, unless it is asked by name to compare with a method of it.
"""

"""The paper's competitors (`methods`), its tables and figures (`experiments`), and trials on them.

No fit imports this package.
"""

"""Settings that all tests share."""

from __future__ import annotations

import os

# MKL picks the kernels of matrix products by the CPU, and their last bits differ. Digests and pages
# with printed scores are those of its AVX2 kernels. Set before torch is imported, and passed on to
# the processes that tests start.
os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

from hypothesis import HealthCheck, settings

# The same examples in every run: a failure can be repeated by anyone, and a pass means the same.
settings.register_profile(
    "repeatable",
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# For a search at leisure: make fuzz
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=300)
settings.load_profile("repeatable")

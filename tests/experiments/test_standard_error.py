"""The standard error against the library's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from xtcl.model_selection.evaluate import standard_error


def test_is_that_of_scipy() -> None:
    values = [84.0, 85.5, 83.1, 86.2]
    assert standard_error(values) == pytest.approx(stats.sem(values))
    assert standard_error(np.array(values)) == pytest.approx(stats.sem(values))


def test_of_one_value_nothing_is_known() -> None:
    assert standard_error([84.0]) is None

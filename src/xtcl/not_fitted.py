"""NotFittedError, apart from the other errors: its base class takes an import of scikit-learn."""

from __future__ import annotations

import sklearn.exceptions

from xtcl.errors import XTCLError


class NotFittedError(XTCLError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """A result was used before `fit`."""

    exit_code = 2

"""How the stumps are fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from xtcl.errors import UsageError
from xtcl.relations.registry import make_relation
from xtcl.relations.thresholds import PAPER_QUANTILES, check_quantiles


@dataclass(frozen=True)
class SamplerSettings:
    """How the stumps are fitted. `SamplerSettings.paper()` is Algorithm 1 as printed.

    With `base_score="prior"` the fit starts from the log-odds of a match, steps may not overshoot,
    and constants are kept out of the weights; with a number it starts there, and steps and weights
    stay as they come. Every relation starts with `prior_pairs` of its own, half of them alike
    (`with_prior`), for tasks whose matches are not rare: with few labels most relations are above
    for no counted pair, and would weigh nothing.

    `cap` is top-k mode: of each row's above set only the `cap` best stay, and a fit takes time and
    memory in proportion to V cap (docs/top-k.md). Where more than `index_past` nodes have different
    attributes, an index of FAISS finds most of them; without it, attributes are searched exactly.
    """

    quantiles: tuple[float, ...] = PAPER_QUANTILES
    base_score: float | str = "prior"
    sweeps: int = 30
    penalty: float = 1.0
    prior_pairs: int = 0
    tie_break: str | None = "attribute-distribution"
    cap: int | None = None
    index_past: int | None = None

    @classmethod
    def paper(cls) -> SamplerSettings:
        """One threshold, start from 0 with nothing believed, one pass, ties by chance."""
        return cls(PAPER_QUANTILES, base_score=0.0, sweeps=1, prior_pairs=0, tie_break=None)

    def checked(self) -> SamplerSettings:
        """These settings, or an error that names the one that cannot be used."""
        check_quantiles(self.quantiles)
        if isinstance(self.base_score, str):
            if self.base_score != "prior":
                raise UsageError(f"base_score='{self.base_score}' must be 'prior' or a number.")
        elif not math.isfinite(self.base_score):
            raise UsageError(f"base_score={self.base_score} must be 'prior' or a finite number.")
        if self.sweeps < 1:
            raise UsageError(f"sweeps={self.sweeps} must be at least 1.")
        if not self.penalty >= 0:
            raise UsageError(f"penalty={self.penalty} must not be negative.")
        if self.prior_pairs < 0:
            raise UsageError(f"prior_pairs={self.prior_pairs} must not be negative.")
        if self.tie_break is not None:
            make_relation(self.tie_break)
        for name, least in (("cap", 1), ("index_past", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or value < least):
                raise UsageError(
                    f"{name}={value} must be a whole number of at least {least}, or None."
                )
        if self.index_past is not None and self.cap is None:
            raise UsageError(
                f"index_past={self.index_past} is for top-k mode: give a cap, such as 32, too."
            )
        return self

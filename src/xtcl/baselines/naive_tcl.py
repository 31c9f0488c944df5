"""Naive task-aware contrast: labels where there are some, relations elsewhere."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.contrastive import Contrastive
from xtcl.baselines.scl import class_positives
from xtcl.baselines.sscl import relation_positives
from xtcl.progress import Progress
from xtcl.sampling.scored import NOBODY
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide


class NaiveTCL(Contrastive):
    r"""SCL for labelled nodes, SSCL for all the others.

    .. math:: p_b \sim \begin{cases} \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}
              & u \in V_L \\ \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \;
              r \sim \mathcal U(\mathcal R_f) & \text{else} \end{cases}

    Definition 7 of Lin and Neville (2024). A node that is alone with its label has the positives of
    an unlabelled one. With the same seed the positives are those of SCL and of SSCL. Cost: that of
    SSCL.
    """

    name: ClassVar[str] = "naive-tcl"
    title: ClassVar[str] = "Naive TCL"

    def positives(
        self,
        side: TrainingSide,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> np.ndarray:
        """Labelled nodes of the same class, else nodes that are above for some relation."""
        alike = class_positives(side.labels, recipe.positives, seed=seed)
        near = relation_positives(side, recipe, seed=seed, device=device, progress=progress)
        return np.where(alike == NOBODY, near, alike)

"""The self-supervised contrastive loss: positives spread evenly over the relations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.contrastive import Contrastive, unlearned_sampler
from xtcl.progress import Progress
from xtcl.relations.block_height import block_height
from xtcl.relations.pattern_rows import PatternRows, all_nodes
from xtcl.sampling.scored import NOBODY
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide


class SSCL(Contrastive):
    r"""XTCL without labels: draws together nodes that any of the relations takes for alike.

    .. math:: p_b \sim \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \qquad
              r \sim \mathcal U(\mathcal R_f)

    Definition 1 of Lin and Neville (2024): every relation gives as many positives.
    :math:`\mathcal R_f` are those of the paper's relations that read no label, less those for which
    nobody is above with u. The definition gives each of them :math:`\lfloor B / |\mathcal R_f|
    \rfloor` of the B positives, which is the same on average; drawn one by one they need not
    divide, and a relation that has nobody for u leaves its places to the others. Labels serve the
    head alone. Cost: one pass over the rows of the relations, O(V^2) time, in blocks of rows, and
    O(V B) memory.
    """

    name: ClassVar[str] = "sscl"
    title: ClassVar[str] = "SSCL"

    def positives(
        self,
        side: TrainingSide,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> np.ndarray:
        """Nodes that are above for some relation."""
        return relation_positives(side, recipe, seed=seed, device=device, progress=progress)


def relation_positives(
    side: TrainingSide,
    recipe: Recipe,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> np.ndarray:
    """A table [V, B]: for each place a relation at random, then one of its above nodes.

    The draws are the same for any height of the blocks. A node that nobody is above with has -1.
    """
    sampler = unlearned_sampler(side, device)
    rows = PatternRows(sampler.relations_, sampler.view_, recipe.sampler.quantiles[-1:])
    rng = np.random.default_rng(seed)
    found = []
    with progress.stage("finding positives", rows.num_nodes) as advance:
        for nodes in rows.blocks(
            all_nodes(rows.num_nodes), block_height(rows.num_nodes, rows.device)
        ):
            shape = (len(nodes), len(rows.relations) + 1, recipe.positives)
            chances = torch.from_numpy(rng.random(shape)).to(device)
            of_each = [_draw(above, chances[:, -1]) for _, above in rows(nodes)]
            found.append(_of_one(torch.stack(of_each, dim=1), chances[:, :-1]).cpu().numpy())
            advance(len(nodes))
    return np.concatenate(found)


def _draw(above: Tensor, chances: Tensor) -> Tensor:
    """For each chance [b, B] one of the nodes that are set in `above` [b, V]; -1 without any."""
    rank = above.cumsum(dim=1, dtype=torch.int32)
    number = rank[:, -1:]
    wanted = (chances * number).int() + 1
    return torch.searchsorted(rank, wanted).masked_fill(number == 0, NOBODY)


def _of_one(drawn: Tensor, lots: Tensor) -> Tensor:
    """Of what the relations drew [b, R, B], that of the highest lot among those with somebody."""
    winner = lots.masked_fill(drawn == NOBODY, -1.0).argmax(dim=1, keepdim=True)
    return drawn.gather(1, winner)[:, 0]

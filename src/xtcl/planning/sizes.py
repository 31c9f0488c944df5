"""Everything that the plan of a fit depends on: sizes, recipe, device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from torch import nn

from xtcl.config import FitConfig
from xtcl.nn.encoder import RANDOM_FEATURES
from xtcl.sampling.folds import MAX_QUERIES
from xtcl.tasks.training_data import TrainingData

LINKS_TASK = "links"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a fit, with its configuration and device. Equal sizes get equal plans."""

    name: str
    task: str
    nodes: int
    edges: int
    attributes: int
    stored: int
    """Bytes of the attributes as the graph holds them."""
    classes: int
    labelled: int
    config: FitConfig
    encoder: str | nn.Module = "gcn"
    device: str = "cpu"
    store: bool = False

    @classmethod
    def of(
        cls,
        side: TrainingData,
        task: str,
        config: FitConfig,
        *,
        encoder: str | nn.Module = "gcn",
        device: str = "cpu",
        store: bool = False,
    ) -> Sizes:
        """The sizes of a fit on the training data `side`."""
        graph, given = side.graph, side.graph.attributes
        arrays = (given.data, given.indices) if sp.issparse(given) else (given,)
        return cls(
            name=graph.name,
            task=task,
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            attributes=graph.num_attributes,
            stored=sum(int(np.asarray(array).nbytes) for array in arrays),
            classes=graph.num_classes,
            labelled=len(side.labelled),
            config=config,
            encoder=encoder,
            device=device,
            store=store,
        )

    @property
    def on_gpu(self) -> bool:
        """Whether the fit runs on a CUDA device."""
        return self.device.startswith("cuda")

    @property
    def cap(self) -> int | None:
        """The cap of top-k mode, at most V - 1; None in exact mode."""
        cap = self.config.sampler.cap
        return None if cap is None else min(cap, max(self.nodes - 1, 1))

    @property
    def columns(self) -> int:
        """Columns of the input of an encoder."""
        return self.attributes or RANDOM_FEATURES

    @property
    def factors(self) -> int:
        """Bytes of a dense matrix of all attributes, padded to 16 columns as relations do."""
        return 4 * self.nodes * (-(-max(self.attributes, 1) // 16) * 16)

    @property
    def width(self) -> int:
        """Columns of the widest embedding."""
        return max(ensemble.width(self.columns) for ensemble in self.config.ensembles)

    @property
    def queries(self) -> int:
        """Rows that all folds of the sampler compute."""
        if self.task != LINKS_TASK:
            return self.labelled
        return min(self.nodes, MAX_QUERIES) * max(self.config.crossfit, 1)

    @property
    def draws(self) -> int:
        """Positives of an anchor in a step."""
        own = (
            self.config.positives
            if self.config.num_positives_per_step is None
            else self.config.num_positives_per_step
        )
        return own + (self.config.num_links_per_step if self.task == LINKS_TASK else 0)

    @property
    def rounds(self) -> int:
        """How often relations and positives are computed: for links once with some hidden first."""
        return 2 if self.task == LINKS_TASK else 1

"""The estimator's answers as pandas frames, by node id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd

    from xtcl.answers.explanations import NodeExplanation
    from xtcl.estimator import XTCL


class FrameAnswers:
    """Methods of `XTCL` that answer by node id; docs/answers.md shows them at work."""

    @property
    def _own(self) -> XTCL:
        return cast("XTCL", self)

    def predict_frame(self) -> pd.DataFrame:
        """For every node id the class, its chance, the label trained on, and all chances."""
        from xtcl.answers.predictions import predictions

        return predictions(self._own).frame()

    def embedding_frame(self) -> pd.DataFrame:
        """For every node id its embedding, in the columns z0, z1, ..."""
        from xtcl.answers.embeddings import embedding_table
        from xtcl.answers.node_names import names_of

        self._own._fitted()
        names = names_of(self._own.training_side_.graph)
        return embedding_table(names, self._own.embedding_).frame()

    def likely_links(self, k: int = 5) -> pd.DataFrame:
        """The `k` likeliest missing links of every node, the best first."""
        from xtcl.answers.likely_links import likely_links

        return likely_links(self._own, k).frame()

    def node_number(self, name: object) -> int:
        """The number of the node with the id `name`, as `predict` and `explain` want it."""
        from xtcl.answers.node_names import node_number

        self._own._fitted()
        return node_number(self._own.training_side_.graph, name)

    def explain_node(self, u: int) -> NodeExplanation:
        """What is thought of node number `u`, its positives and why, and its neighbours."""
        from xtcl.answers.explanations import explain_node

        return explain_node(self._own, u)

    def predict_new(self, nodes: Any, edges: Any = None) -> pd.DataFrame:
        """`predict_frame` of nodes that come after the fit: tables or frames as of `read_tables`.

        Nothing is fitted again, and the answers for the nodes of the fit stay what they are.
        """
        from xtcl.answers.new_nodes import predict_new

        return predict_new(self._own, nodes, edges).frame()

    def embed_new(self, nodes: Any, edges: Any = None) -> pd.DataFrame:
        """`embedding_frame` of nodes that come after the fit."""
        from xtcl.answers.embeddings import embedding_table
        from xtcl.answers.new_nodes import embed_new

        rows = embed_new(self._own, nodes, edges)
        return embedding_table(rows.names, rows.embedding).frame()

"""Write the golden runs of this version.

`PYTHONPATH=src:tests/helpers python tests/helpers/golden_runs.py`

One folder for each task under `golden/schema-N`: a small run as `XTCL.save` writes it, without its
picture, and what the model answered. Runs of older schemas stay: `test_golden_runs.py` loads all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from small_runs import small_graph, small_model, small_split

from xtcl.estimator import XTCL
from xtcl.runs.model_files import SCHEMA
from xtcl.tasks import TASKS

PAIRS = [[0, 1, 2, 3], [40, 41, 42, 43]]


def answers(model: XTCL) -> dict[str, list[float]]:
    """A few of the model's answers of each kind."""
    explanation = model.explain(0, 40)
    heads: dict[str, Callable[[], np.ndarray]] = {
        "nodes": lambda: model.predict_proba()[:5],
        "links": lambda: model.decision_function(PAIRS),
    }
    return {
        "embedding": model.embedding_[:3, :6].ravel().round(6).tolist(),
        "answers": heads[str(model.task)]().ravel().round(6).tolist(),
        "weights": [round(float(each.w1), 6) for each in model.relation_weights_],
        "chance": [round(explanation.probability, 6)],
    }


if __name__ == "__main__":
    for task in TASKS:
        place = Path(__file__).parents[1] / "golden" / f"schema-{SCHEMA}" / task
        graph = small_graph()
        model = small_model(task, epochs=3).fit(graph, small_split(graph, task))
        model.save(place)
        (place / "relation_weights.png").unlink()
        (place / "answers.json").write_text(json.dumps(answers(model), indent=1) + "\n")

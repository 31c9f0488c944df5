from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from dense import all_rows, cosines, dense_attributes
from hypothesis import given
from sklearn.metrics.pairwise import cosine_similarity
from strategies import views

from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.view import TrainingView


@given(views())
def test_equals_the_formula(view: TrainingView) -> None:
    expected = cosines(dense_attributes(view))
    np.testing.assert_allclose(all_rows(AttributeSimilarity(), view), expected, atol=1e-6)


@given(views(attributes=["counts", "signed", "some zero rows", "zeros"]))
def test_agrees_with_scikit_learn(view: TrainingView) -> None:
    expected = np.maximum(cosine_similarity(dense_attributes(view)), 0)
    np.testing.assert_allclose(all_rows(AttributeSimilarity(), view), expected, atol=1e-6)


@given(views(attributes=["counts", "signed", "some zero rows"]))
def test_sparse_attributes_give_the_same_bits(view: TrainingView) -> None:
    sparse = dataclasses.replace(
        view, attributes=sp.csr_array(view.attributes), label_free_cache={}, attribute_cache={}
    )
    rows = all_rows(AttributeSimilarity(), view)
    np.testing.assert_array_equal(all_rows(AttributeSimilarity(), sparse), rows)

"""The figures of the page, against loops, and that it shows any id as text."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from page_runs import HOSTILE, few_resamples, hostile_fit, hostile_graph
from small_runs import Recorder, small_graph, small_model

from xtcl.errors import NotFittedError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, node_split
from xtcl.report.data_health import data_health
from xtcl.report.facts import MAX_TEXT_LENGTH, POSITIVES_SHOWN, RunFacts, escape_text, mean_cosine
from xtcl.report.node_map import MAP_SIZE, node_map, project
from xtcl.report.page import breakable, render, script_json, summarise
from xtcl.report.scores import MAX_MATRIX_CLASSES, node_test, reliability, wilson_interval
from xtcl.report.weights import RelationRow
from xtcl.report.words import calibration_text, caution_sentences, signals_text
from xtcl.tasks.custom import CustomTask
from xtcl.tasks.metrics import METRICS

pytestmark = pytest.mark.usefixtures("few_resamples")


__all__ = ["few_resamples"]


def test_the_test_side_of_nodes() -> None:
    model, graph = hostile_fit("nodes"), hostile_graph()
    split, labels = model.split_, graph.labels
    assert isinstance(split, NodeSplit)
    assert labels is not None
    found = node_test(RunFacts.of(model))
    assert found is not None
    chances = model.predict_proba()
    said = chances.argmax(axis=1)
    assert found.count == len(split.test)
    assert found.accuracy == model.score(split)
    for true in range(3):
        for answer in range(3):
            pairs = [(labels[u], said[u]) for u in split.test]
            assert found.confusion[true][answer] == pairs.count((true, answer))
    for score in found.scores:
        code = found.names.index(score.name)
        own = [u for u in split.test if labels[u] == code]
        assert score.count == len(own)
        assert score.recall == pytest.approx(np.mean([said[u] == code for u in own]))
    assert found.interval[0] < found.accuracy < found.interval[1]
    assert found.reliability == reliability(
        chances.max(axis=1)[split.test], said[split.test] == labels[split.test]
    )


def test_two_classes_have_a_ranking() -> None:
    graph = block_model(60, num_classes=2, num_attributes=8, seed=0)
    assert graph.labels is not None
    split = node_split(graph, 0.3, seed=0)
    model = small_model(epochs=2).fit(graph, split)
    found = node_test(RunFacts.of(model))
    assert found is not None
    expected = model.test_metrics(split)
    for name in METRICS["nodes"]:
        assert getattr(found, name) == expected[name]
    page = render(summarise(model))
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "average_precision"):
        assert f"{100 * expected[name]:.1f}" in page
    assert f"For “<bdi>{graph.classes[1]}</bdi>” against the other class" in page
    three = render(summarise(hostile_fit("nodes")))
    assert "balanced accuracy" in three
    assert "area under the ROC curve" not in three


def test_reliability_against_a_loop() -> None:
    rng = np.random.default_rng(3)
    sure, right = rng.uniform(0.2, 1.0, 300), rng.random(300) < 0.7
    sure[:3] = 1.0
    found = reliability(sure, right)
    total = 0.0
    for low in range(10):
        high = low + 1 if low < 9 else 11
        inside = [k for k in range(300) if low <= 10 * sure[k] < high]
        if inside:
            said = sum(sure[k] for k in inside) / len(inside)
            was = sum(right[k] for k in inside) / len(inside)
            total += len(inside) / 300 * abs(said - was)
    assert found.ece == pytest.approx(total)
    assert sum(each.count for each in found.bins) == 300
    assert all(each.low <= each.mean_confidence <= each.high for each in found.bins)


def test_wilson_s_interval() -> None:
    # From the formula's own worked example: 15 of 20, z = 1.96.
    assert wilson_interval(15, 20) == pytest.approx((0.531, 0.888), abs=1e-3)
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_the_health_of_the_data() -> None:
    for task in ("nodes", "links"):
        graph = hostile_graph()
        found = summarise(hostile_fit(task)).data_health
        other = graph.to_networkx()
        sizes = sorted(map(len, nx.connected_components(other)))
        assert found.components == len(sizes)
        assert found.largest == sizes[-1]
        assert found.isolated == len(list(nx.isolates(other))) >= 2
        assert found.links == other.number_of_edges()  # the held-out ones, too
        assert found.without_attributes >= 1
        if task == "nodes":
            labels = graph.labels
            assert labels is not None
            ends = [(labels[u], labels[v]) for u, v in graph.edges.T]
            known = [(a, b) for a, b in ends if a >= 0 and b >= 0]
            assert found.homophily == pytest.approx(np.mean([a == b for a, b in known]))
            assert found.labelled == int((labels >= 0).sum())
            assert sum(c.trained + c.tested for c in found.classes) == found.labelled


def test_nodes_to_look_at() -> None:
    model = hostile_fit("nodes")
    facts = RunFacts.of(model)
    look = summarise(model).review
    chances = [node.probability for node in look.wrong]
    assert chances == sorted(chances, reverse=True)
    assert all(node.known != node.predicted for node in look.wrong)
    assert [n.probability for n in look.uncertain] == sorted(n.probability for n in look.uncertain)
    assert [n.links for n in look.fewest_links] == sorted(n.links for n in look.fewest_links)
    near = mean_cosine(facts)
    for u in (0, 5, 33, 79):
        others = list(facts.graph.adjacency[[u]].indices)
        others += [v for v in facts.positives[u, :POSITIVES_SHOWN] if v >= 0]
        rows = facts.embedding / np.linalg.norm(facts.embedding, axis=1, keepdims=True)
        expected = np.mean([rows[u] @ rows[v] for v in others]) if others else 0.0
        assert near[u] == pytest.approx(expected, abs=1e-5)


def test_the_map_keeps_the_principal_axes() -> None:
    facts = RunFacts.of(hostile_fit("nodes"))
    centred = facts.embedding - facts.embedding.mean(axis=0)
    u, s, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    places, explained = project(facts.embedding)
    assert explained == pytest.approx((s[:2] ** 2).sum() / (s**2).sum(), abs=1e-3)
    for axis in range(2):
        assert abs(np.corrcoef(places[:, axis], u[:, axis])[0, 1]) > 0.999
    assert places.min() == 0
    assert places.max() == MAP_SIZE
    assert project(np.ones((4, 3)))[1] == 0.0


def test_a_larger_graph_is_drawn_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xtcl.report.node_map.MAX_NODES_DRAWN", 30)
    facts = RunFacts.of(hostile_fit("nodes"))
    drawn = node_map(facts)
    assert drawn.of == 80
    assert len(drawn.x) == len(drawn.positives) == 30
    for row, name in zip(drawn.positives, drawn.names, strict=False):
        node = [facts.name(u) for u in range(80)].index(name)
        expected = [facts.name(v) for v in facts.positives[node, :POSITIVES_SHOWN] if v >= 0]
        assert [drawn.names[place] for place in row] == expected


def test_precision_compares_with_all_known_pairs() -> None:
    model = hostile_fit("nodes")
    counts = model.sampler_.counts_.counts.tolist()
    expected = sum(row[1] for row in counts) / sum(map(sum, counts))
    found = summarise(model)
    assert found.base_rate == pytest.approx(expected)
    assert len(found.relations) == 9
    assert all(row.weight_interval is not None for row in found.relations)


def test_links_show_what_applies() -> None:
    model = hostile_fit("links")
    split = model.split_
    assert isinstance(split, LinkSplit)
    found = summarise(model)
    assert found.nodes is None
    assert found.links is not None
    assert found.links.auc == model.score(split)
    assert sum(found.links.link_shares) == pytest.approx(1.0)
    scores = model.predict_proba(split.test)
    assert [pair.score for pair in found.links.missed] == pytest.approx(sorted(scores)[:8])
    assert not found.review.wrong
    assert not found.review.uncertain
    assert found.review.fewest_links


def test_a_report_tells_how_far_it_is(tmp_path: Path) -> None:
    model = small_model(epochs=2).fit(small_graph())
    stages_of_page = Recorder()
    model.set_params(progress=stages_of_page).report(tmp_path / "page.html")
    assert stages_of_page.names == ["resampling weights", "looking at nodes", "writing the page"]
    assert [steps for _, steps, _ in stages_of_page.stages] == [5, 4, 2]
    assert all(sum(done) == steps for _, steps, done in stages_of_page.stages)


def test_a_fit_on_everything_has_nothing_held_out() -> None:
    found = summarise(small_model(epochs=2).fit(small_graph()))
    assert found.nodes is None
    assert "none held out" in found.points[0].text


def test_a_task_of_one_s_own_has_no_answers() -> None:
    graph = small_graph()
    own = CustomTask(lambda u, v: (u[:, None] + v) % 2 == 0, np.arange(30))
    found = summarise(small_model(own, epochs=2).fit(graph))
    assert found.task == "custom"
    assert found.nodes is None
    assert found.relations


def test_many_classes_are_shortened() -> None:
    rng = np.random.default_rng(0)
    plain = small_graph(120)
    labels = np.concatenate([np.arange(20), rng.integers(0, 20, 100)])
    graph = Graph.from_arrays(plain.attributes, plain.edges, labels)
    model = small_model(epochs=1).fit(graph, node_split(graph, 0.5, seed=0))
    found = node_test(RunFacts.of(model))
    assert found is not None
    assert len(found.names) == len(found.confusion) == MAX_MATRIX_CLASSES
    assert sum(map(sum, found.confusion)) == found.count
    # Some of the others hit their own class, and some hit another of them.
    right = sum(round((s.recall or 0) * s.count) for s in found.scores)
    assert sum(found.confusion[k][k] for k in range(MAX_MATRIX_CLASSES)) >= right


def test_classes_with_hardly_a_label_are_named() -> None:
    plain = hostile_fit("nodes")
    facts = RunFacts.of(plain)
    assert not data_health(facts, "nodes").rare_classes
    assert not data_health(facts, "nodes").warnings
    own = [facts.trained[facts.truth[facts.trained] == code] for code in range(3)]
    few = np.concatenate([own[0], own[1][:1], own[2][:3]])
    found = data_health(replace(facts, trained=few), "nodes")
    assert [(size.name, size.trained) for size in found.rare_classes] == [
        ("</script>", 3),
        ("dog & co", 1),
    ]
    single, three = found.warnings
    assert single.startswith("Class “dog & co” was trained on a single label: predictions of it")
    assert three.startswith("Class “</script>” (3) was trained on fewer than 5 labels: predictions")
    unseen = data_health(replace(facts, trained=own[0]), "nodes").warnings
    assert unseen[0].startswith("Each of the classes “</script>”, “dog & co” had no label")
    assert not data_health(RunFacts.of(hostile_fit("links")), "links").warnings
    bare = data_health(
        replace(facts, graph=facts.graph.with_edges(facts.graph.edges[:, :5])), "nodes"
    )
    assert "have no link: for them only attributes speak" in bare.warnings[0]
    page = render(replace(summarise(plain), data_health=found))
    assert "<li><bdi>Class “dog &amp; co” was trained on a single label" in page
    careful = " ".join(caution_sentences(found, None, summarise(plain).review))
    assert "fewer than 5 labels to learn from: “</script>” (3), “dog & co” (1)" in careful


def row(title: str, support: int, weight: float) -> RelationRow:
    return RelationRow(title, weight, 0.0, 0.9, support, (weight - 0.1, weight + 0.1))


def test_few_pairs_are_no_headline_where_many_speak() -> None:
    few, many = row("Link", 2, 3.0), row("PageRank", 500, 1.0)
    assert "is “PageRank”: of the" in signals_text("nodes", [few, many], 0.3).text
    assert "is “Link” (few pairs): of the" in signals_text("nodes", [few], 0.3).text


@pytest.mark.parametrize(
    ("count", "verdict"), [(60, "no more apart than 60 nodes can tell"), (6000, "overconfident")]
)
def test_few_nodes_give_no_verdict_on_probabilities(count: int, verdict: str) -> None:
    right = np.arange(count) < 0.8 * count
    known = node_test(RunFacts.of(hostile_fit("nodes")))
    assert known is not None
    found = replace(
        known,
        count=count,
        interval=wilson_interval(int(right.sum()), count),
        reliability=reliability(np.full(count, 0.87), right),
    )
    assert verdict in calibration_text(found).text


# Whatever ids and classes are called, the page shows them as text and runs only its own script.


class Read(HTMLParser):
    """Elements, their attributes, the text, and what scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._open = "", list[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts.append(data)
        else:
            self.text += data


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_hostile_names_are_text(task: str) -> None:
    page = render(summarise(hostile_fit(task)))
    read = Read(page)
    names = [tag for tag, _ in read.elements]
    assert names.count("script") == 2
    assert names.count("img") == 1
    assert "i" not in {tag for tag, attributes in read.elements if not attributes}
    assert not names.count("b")
    for _, attributes in read.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:image/png;base64,"))
    assert "<i>odd</i> & co" in read.text
    assert "{{" not in read.text
    data = json.loads(read.scripts[0])
    assert data["names"][:11] == [escape_text(name) for name in HOSTILE]
    assert all(len(name) <= MAX_TEXT_LENGTH for name in data["names"])
    page.encode()  # every character can be written


def test_a_page_says_of_itself_that_it_loads_nothing() -> None:
    page = render(summarise(hostile_fit("nodes")))
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page


def test_no_character_leaves_the_script() -> None:
    for start in range(0, 0x3000, 60):
        text = "".join(map(chr, range(start, start + 60))) + "\ud800"
        written = script_json({"names": [escape_text(text)]})
        assert not set("<>&\u2028\u2029") & set(written)
        assert json.loads(written)["names"] == [escape_text(text)]
        written.encode()
        marked = str(breakable(text))
        assert "<" not in marked.replace("<wbr>", "")
        assert unescape(marked.replace("<wbr>", "")) == text


def test_refusals(tmp_path: Path) -> None:
    model = hostile_fit("nodes")
    with pytest.raises(UsageError, match=r"must end in \.html"):
        model.report(tmp_path / "page.pdf")
    with pytest.raises(UsageError, match="There is no folder"):
        model.report(tmp_path / "none" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        model.report(tmp_path / "folder.html")
    with pytest.raises(NotFittedError):
        XTCL().report(tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]

"""Named data sets: contents against PyG, the search for files, and the messages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets import load as location
from xtcl.graph.datasets.formats import quiet_pyg
from xtcl.graph.datasets.load import DATASETS, DatasetSpec, describe_datasets, load_dataset
from xtcl.graph.graph import Graph
from xtcl.graph.validation import FloatArray, Repairs

SHARED = Path(os.environ.get("XTCL_DATA") or Path(__file__).parents[4] / "shared" / "datasets")
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the raw data sets are not here")
PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's folders, and none reaches the network."""
    monkeypatch.delenv("XTCL_DATA", raising=False)
    monkeypatch.setenv("XTCL_CACHE", str(tmp_path / "cache"))

    def no_network(spec: DatasetSpec, file: str, folder: str) -> str:
        raise OSError(f"no route to {spec.name}/{file}, wanted in {Path(folder).name}")

    monkeypatch.setattr(location, "_fetch", no_network)


PLAIN = (
    *("imdb", "flickr", "facebook_pages", "twitch_england", "actor"),
    *("chameleon_filtered", "chameleon_directed", "minesweeper", "dblp"),
)
"""Graphs that may be a file of plain arrays."""


def dense(graph: Graph) -> FloatArray:
    attributes = graph.attributes
    return attributes if isinstance(attributes, np.ndarray) else attributes.toarray()


def write_npz(path: Path, **changes: object) -> None:
    """Five nodes; links 0->1, 1->0, 1->2, 3->3 and 4->2; an attribute that counts to 3."""
    adjacency = sparse.csr_array(
        (np.ones(5, np.float32), ([0, 1, 1, 3, 4], [1, 0, 2, 3, 2])), shape=(5, 5)
    )
    attributes = sparse.csr_array(np.diag([3.0, 1.0, 0.0, 1.0, 2.0]).astype(np.float32))
    parts = {
        f"{kind}_{part}": getattr(matrix, part)
        for kind, matrix in (("adj", adjacency), ("attr", attributes))
        for part in ("data", "indices", "indptr", "shape")
    }
    path.parent.mkdir(parents=True)
    np.savez(path, **{**parts, "labels": np.array([1, 0, 1, 0, 2]), **changes})


def write_plain(path: Path, **changes: object) -> None:
    """Four nodes; links 0->1, 1->0, 3->3 and 3->2; the last node has no class."""
    matrix = sparse.csr_array(np.diag([0.5, -2.0, 0.0, 1.0]).astype(np.float32))
    parts = {f"x_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    links = np.array([[0, 1, 3, 3], [1, 0, 3, 2]])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{"edge_index": links, **parts, "y": np.array([1, 0, 1, -1]), **changes})


def test_cora_needs_nothing() -> None:
    graph = load_dataset("Cora")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (2708, 5278, 7)
    assert graph.attributes.shape == (2708, 1433)
    assert sparse.issparse(graph.attributes)
    assert graph.labels is not None
    # Planetoid's order: class 0 is Theory, with 351 papers.
    assert dict(zip(graph.classes, np.bincount(graph.labels).tolist(), strict=True)) == {
        "Theory": 351,
        "Reinforcement_Learning": 217,
        "Genetic_Algorithms": 418,
        "Neural_Networks": 818,
        "Probabilistic_Methods": 426,
        "Case_Based": 298,
        "Rule_Learning": 180,
    }
    assert graph.labels[:5].tolist() == [3, 4, 4, 0, 3]


@needs_data
@pytest.mark.parametrize("name", PLANETOID)
def test_planetoid_equals_pygs_class(name: str, tmp_path: Path) -> None:
    folder = PLANETOID[name]
    shutil.copytree(SHARED / "Planetoid" / folder / "raw", tmp_path / folder / "raw")
    with quiet_pyg():
        from torch_geometric.datasets import Planetoid

        expected = Planetoid(str(tmp_path), folder)[0]
    graph = load_dataset(name, SHARED)
    assert np.array_equal(dense(graph), expected.x.numpy())
    assert graph.labels is not None
    assert np.array_equal(graph.labels, expected.y.numpy())
    found = expected.edge_index.numpy()
    assert graph.edge_index.tolist() == found[:, np.lexsort(found[::-1])].tolist()
    assert graph.num_edges == {"cora": 10556, "citeseer": 9104, "pubmed": 88648}[name] // 2


@needs_data
@pytest.mark.parametrize(("name", "links"), [("photo", 238_162), ("computers", 491_722)])
def test_amazon_equals_pygs_reader(name: str, links: int) -> None:
    spec = DATASETS[name]
    with quiet_pyg():
        from torch_geometric.io import read_npz

        expected = read_npz(str(SHARED / "Amazon" / spec.folder / "raw" / spec.files[0]))
    graph = load_dataset(name, SHARED)
    assert graph.edge_index.shape == (2, links)
    assert np.array_equal(graph.edge_index, expected.edge_index.numpy())
    assert np.array_equal(dense(graph), expected.x.numpy())
    assert graph.labels is not None
    assert np.array_equal(graph.labels, expected.y.numpy())
    assert all(isinstance(label, str) for label in graph.classes)


@needs_data
@pytest.mark.parametrize(
    ("name", "repairs"),
    [
        ("citeseer", Repairs(duplicates_merged=112, loops_dropped=248)),
        ("pubmed", Repairs(duplicates_merged=22, loops_dropped=6)),
        ("photo", Repairs(loops_dropped=1, directions_removed=94_500)),
        ("computers", Repairs(directions_removed=204_513)),
    ],
)
def test_repairs_of_the_raw_files_are_reported(name: str, repairs: Repairs) -> None:
    assert load_dataset(name, SHARED).repairs == repairs


@needs_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "photo", "computers", *PLAIN])
def test_registry_states_the_true_sizes(name: str) -> None:
    graph = load_dataset(name, SHARED)
    assert DATASETS[name].size == (
        graph.num_nodes,
        graph.num_edges,
        graph.attributes.shape[1],
        graph.num_classes,
    )


@pytest.mark.parametrize(
    "place",
    ["Coauthor/CS/raw", "CS/raw", "coauthor/cs/raw", "COAUTHOR/Cs/RAW"],
)
def test_npz_is_found_in_each_layout_and_nothing_is_written(place: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_npz(root / place / "ms_academic_cs.npz")
    before = sorted(root.rglob("*"))
    graph = load_dataset("coauthor-cs", root)
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 4]]
    assert dense(graph).tolist() == np.diag([1.0, 1.0, 0.0, 1.0, 1.0]).tolist()
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, 1, 0, 2]
    assert graph.repairs == Repairs(loops_dropped=1, directions_removed=2)
    assert sorted(root.rglob("*")) == before
    assert not (tmp_path / "cache").exists()


def test_data_folder_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_npz(tmp_path / "data" / "CitationFull" / "dblp" / "raw" / "dblp.npz")
    monkeypatch.setenv("XTCL_DATA", str(tmp_path / "data"))
    assert load_dataset("dblp").num_edges == 3
    assert [info.name for info in describe_datasets() if info.available] == ["cora", "dblp"]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_arrays_are_read_as_they_are(name: str, tmp_path: Path) -> None:
    write_plain(tmp_path / "data" / "more" / f"{name}.npz")
    graph = load_dataset(name, tmp_path / "data")
    assert graph.name == name
    assert graph.edges.tolist() == [[0, 2], [1, 3]]
    assert graph.repairs == Repairs(loops_dropped=1, directions_removed=1)
    assert dense(graph).tolist() == np.diag([0.5, -2.0, 0.0, 1.0]).tolist()
    assert graph.labels is not None
    assert (graph.labels.tolist(), graph.classes) == ([1, 0, 1, -1], (0, 1))
    here = [info for info in describe_datasets(tmp_path / "data") if info.available]
    assert [(info.name, info.source) for info in here] == [
        ("cora", "package"),
        (name, f"more/{name}.npz"),
    ]


def test_dblp_in_pygs_layout_comes_first_within_a_folder(tmp_path: Path) -> None:
    write_npz(tmp_path / "cache" / "CitationFull" / "dblp" / "raw" / "dblp.npz")
    assert load_dataset("dblp").num_nodes == 5
    write_plain(tmp_path / "data" / "more" / "dblp.npz")
    assert load_dataset("dblp", tmp_path / "data").num_nodes == 4  # the user's folder is the first
    write_npz(tmp_path / "data" / "dblp" / "raw" / "dblp.npz")
    assert load_dataset("dblp", tmp_path / "data").num_nodes == 5


def test_missing_plain_arrays_are_asked_for_and_not_downloaded(tmp_path: Path) -> None:
    sentence = (
        r"put imdb\.npz into DIR/more and give --data DIR, .* graph of the PyPI package "
        r"graphdatascience 2\.2"
    )
    with pytest.raises(DataError, match=sentence):
        load_dataset("imdb", tmp_path)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"y": np.array(["a", None, "b", "c"], dtype=object)}, "allow_pickle"),
        (
            {"y": np.array([1, 0, 1])},
            r"y is int64 \[3\], not a whole number for each",
        ),
        ({"y": np.array([0.5, 0.0, 1.0, 1.0])}, "y is float64"),
        ({"edge_index": np.array([[0], [4]])}, r"\(0, 4\) in column 0"),
        ({"edge_index": np.array([0, 1])}, r"\[2, E\]"),
        ({"x_shape": np.array(4)}, "not iterable|unpack"),
        ({"x_indices": np.array([0, 1, 9])}, "indices|index"),
        ({"x_data": np.array([1.0, np.nan, 1.0])}, "nan"),
    ],
)
def test_damaged_plain_arrays_are_refused(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    write_plain(tmp_path / "more" / "actor.npz", **changes)
    refused = rf"more/actor\.npz is not a graph .*\(.*({reason}).*\): replace it with the original"
    with pytest.raises(DataError, match=refused):
        load_dataset("actor", tmp_path)


def test_any_damage_of_a_file_of_plain_arrays_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "more" / "actor.npz"
    write_plain(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] = int(rng.integers(256))
        path.write_bytes(damaged)
        try:
            load_dataset("actor", tmp_path)
        except DataError as error:
            assert str(error).endswith("replace it with the original.")  # noqa: PT017
            refused += 1
    assert refused > 100


def test_cora_full_is_not_taken_for_planetoids_cora(tmp_path: Path) -> None:
    (tmp_path / "Cora" / "raw").mkdir(parents=True)
    write_npz(tmp_path / "cora" / "raw" / "cora.npz")
    assert load_dataset("cora-full", tmp_path).num_nodes == 5


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    labels = np.array(["a", None, "b", "c", "d"], dtype=object)
    write_npz(tmp_path / "dblp" / "raw" / "dblp.npz", labels=labels)
    with pytest.raises(DataError, match="replace it with the original"):
        load_dataset("dblp", tmp_path)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dblp" / "raw" / "dblp.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(DataError, match=r"dblp\.npz is not a graph"):
        load_dataset("dblp", tmp_path)


def test_a_changed_pickle_is_never_opened(tmp_path: Path) -> None:
    spec, witness = DATASETS["citeseer"], tmp_path / "opened"
    raw = tmp_path / "Planetoid" / "CiteSeer" / "raw"
    raw.mkdir(parents=True)
    for file in spec.files:
        (raw / file).write_bytes(f"cos\nsystem\n(S'touch {witness}'\ntR.".encode())
    with pytest.raises(DataError, match=r"ind\.citeseer\.x is not the published file"):
        load_dataset("citeseer", tmp_path)
    assert not witness.exists()


def test_missing_and_offline_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Amazon/Photo/raw .*--data DIR, data=DIR or XTCL_DATA"):
        load_dataset("photo")
    raw = tmp_path / "cache" / "Amazon" / "Photo" / "raw"
    assert list(raw.iterdir()) == []


def test_download_goes_to_the_cache_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched = []

    def fetch(spec: DatasetSpec, file: str, folder: str) -> str:
        fetched.append(file)
        write_npz(Path(folder) / "new" / file)
        return str(Path(folder) / "new" / file)

    monkeypatch.setattr(location, "_fetch", fetch)
    first, second = load_dataset("coauthor-physics"), load_dataset("coauthor-physics")
    assert fetched == ["ms_academic_phy.npz"]
    assert first.fingerprint() == second.fingerprint()
    raw = tmp_path / "cache" / "Coauthor" / "Physics" / "raw"
    assert [path.name for path in raw.iterdir()] == ["ms_academic_phy.npz"]


def test_a_damaged_download_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(spec: DatasetSpec, file: str, folder: str) -> str:
        path = Path(folder) / file
        path.write_text("<html>Please log in</html>")
        return str(path)

    monkeypatch.setattr(location, "_fetch", fetch)
    with pytest.raises(DataError, match="not the published file of photo"):
        load_dataset("photo")


def test_unknown_names_meet_the_closest() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'citeseer'\? Known: cora, citeseer, "):
        load_dataset("cite-seer")


def test_missing_data_folder() -> None:
    with pytest.raises(DataError, match="does not exist: check --data or XTCL_DATA"):
        load_dataset("photo", "/no/such/folder")


def test_descriptions_name_every_data_set() -> None:
    infos = describe_datasets()
    assert [info.name for info in infos] == list(DATASETS)
    assert [info.name for info in infos if info.available] == ["cora"]
    assert infos[0].source == "package"
    assert (infos[0].nodes, infos[0].edges, infos[0].attributes, infos[0].classes) == (
        2708,
        5278,
        1433,
        7,
    )

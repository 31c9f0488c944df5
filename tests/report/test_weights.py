"""The picture of the relation weights."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from xtcl.report.weights import draw_weights
from xtcl.sampling.weights import RelationWeight


def weight(name: str, w1: float = 1.0, order: int = 1) -> RelationWeight:
    return RelationWeight(name, order, 0.5, 10, -0.2, w1, abs(w1), (-0.2, w1))


def drawn(weights: list[RelationWeight], path: Path, title: str = "") -> tuple[bytes, int, int]:
    draw_weights(weights, path, title)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content[12:16] == b"IHDR"
    assert content.endswith(b"IEND\xaeB`\x82")
    return content, *struct.unpack(">II", content[16:24])


def test_a_picture_shows_something(tmp_path: Path) -> None:
    from matplotlib.image import imread

    drawn([weight("link", 2.0), weight("pagerank", -1.0, 2)], tmp_path / "a.png", "some graph")
    pixels = imread(tmp_path / "a.png")
    assert pixels.min() < 0.2 < 0.9 < pixels.max()
    colours = {
        tuple(colour) for colour in (pixels.reshape(-1, pixels.shape[2]) * 255).round()[:, :3]
    }
    assert (0x2A, 0x6F, 0x97) in colours  # above
    assert (0xC9, 0xAD, 0xA7) in colours  # below


def test_more_relations_need_a_taller_picture_of_the_same_width(tmp_path: Path) -> None:
    _, wide, low = drawn([weight("link")], tmp_path / "one.png")
    _, as_wide, high = drawn([weight(f"r{i}") for i in range(9)], tmp_path / "nine.png")
    assert wide == as_wide
    assert high > 2 * low


def test_the_same_weights_give_the_same_bytes_and_others_do_not(tmp_path: Path) -> None:
    first, _, _ = drawn([weight("link")], tmp_path / "a.png")
    assert drawn([weight("link")], tmp_path / "b.png")[0] == first
    assert drawn([weight("link", 3.0)], tmp_path / "c.png")[0] != first
    assert drawn([weight("link")], tmp_path / "d.png", "titled")[0] != first


@pytest.mark.parametrize("name", ["costs $5 and $6", r"$\undefined{$", "a_b^c", ""])
def test_a_name_is_never_a_formula(name: str, tmp_path: Path) -> None:
    drawn([weight(name)], tmp_path / "a.png", title=name)


def test_weights_of_zero_can_be_drawn(tmp_path: Path) -> None:
    drawn([weight("link", 0.0)], tmp_path / "a.png")

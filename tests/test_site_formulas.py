"""Docstrings as the site shows them."""

from __future__ import annotations

from textwrap import dedent

from site_formulas import readable


def test_formulas_stand_apart() -> None:
    given = """\
        A loss.

        .. math:: L = \\sum_i x_i
                  + \\sum_j y_j

        .. math::
            M = 1

        with :math:`x_i` of node i.
        """
    assert readable(dedent(given)).rstrip() == dedent(
        """\
        A loss.

        ```latex
        L = \\sum_i x_i
        + \\sum_j y_j
        ```

        ```latex
        M = 1
        ```

        with `x_i` of node i."""
    )


def test_tables_keep_their_lines() -> None:
    table = "====  ====\none   two\n====  ====\n1     2\n3     4\n====  ====\n"
    assert readable(f"Before:\n\n{table}\nafter.") == f"Before:\n\n```text\n{table}```\n\nafter.\n"


def test_plain_text_stays() -> None:
    plain = "Nothing to see: a = b, :not math:.\n"
    assert readable(plain).strip() == plain.strip()

"""Pieces of HTML: what comes from data cannot become markup."""

from __future__ import annotations

import pytest

from boostfeat.core.html import cell, remark, shown, style, table, title

pytestmark = pytest.mark.quick

EVIL = "</td><script>alert('x')</script>\x1b\""


def test_texts_are_escaped_and_bounded():
    assert shown(EVIL) == "&lt;/td&gt;&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;\\x1b&quot;"
    assert len(shown("x" * 1000)) == 300
    assert shown("x" * 12, 10) == "xxxxx...xx"


def test_pieces_escape_what_they_hold():
    page = cell(title(EVIL, EVIL), table([EVIL, "b"], [[EVIL, EVIL], ["c", "d"]]), remark(EVIL))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6
    assert '<tr><th scope="row">c</th><td>d</td></tr>' in page
    assert page.startswith('<div class="boostfeat cell"><style>')
    assert page.endswith("</div>")
    assert remark("") == ""


def test_the_style_is_scoped_and_loads_nothing():
    rules = [line for line in style().splitlines() if "{" in line]
    assert all(part.strip().startswith(".boostfeat") for line in rules for part in line.partition("{")[0].split(","))
    assert "url(" not in style()
    assert "@import" not in style()

"""The page: one template, one style sheet, one script, and two compressed blobs (plotly, the sentences).

Everything from the data is escaped by the template or set as text by the script. The policy in the page's head allows the two
scripts by their hashes and nothing else: no network, no other script, even if a piece of text slipped through.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from .. import __version__
from ..compare.intervals import colours, intervals_html
from ..core.errors import InputError
from ..core.html import style
from .figures import figures


def render(data: dict[str, Any]) -> str:
    """The HTML of gathered data."""
    check_packages()
    import jinja2
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    how: dict[str, Any] = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=jinja2.FunctionLoader(_resource), **how)
    environment.filters |= FILTERS
    script, plotly = _resource("report.js"), get_plotlyjs()
    policy = (
        f"default-src 'none'; script-src {_hash(script)} {_hash(plotly)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    label = f"Test {data['metric']['title']} of every system with its confidence interval"
    return environment.get_template("report.html.j2").render(
        **{key: value for key, value in data.items() if key != "sentences"},
        version=__version__,
        policy=policy,
        style=style() + _resource("report.css"),
        script=script,
        colour=colours([row["name"] for row in data["results"]]),
        intervals=intervals_html(data["results"], data["headline"]["linear"], data["metric"]["name"], label=label),
        figures=script_json(figures(data)),
        plotly=packed(plotly.encode()),
        sentences=packed(json.dumps(data["sentences"], ensure_ascii=False, separators=(",", ":")).encode()),
        browser={key: data["sentences"][key] for key in ("systems", "scorers", "ours", "linear")},
    )


def check_packages() -> None:
    """Raise at once, before the work, if what the page is made with is not installed."""
    for name in ("jinja2", "plotly"):
        if find_spec(name) is None:
            raise InputError(f"report: expected the package {name}, found none; pip install 'boostfeat[report]'")


def packed(content: bytes) -> str:
    """Compressed, in characters that mean nothing to HTML; the script unpacks it when it is needed."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


# -- numbers as the page shows them ------------------------------------------------------------------------------------


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form).replace("-", "−")


def _value(value: Any) -> str:
    """A setting: numbers in short, everything else as JSON."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


FILTERS: dict[str, Callable[..., str]] = {
    "fixed": lambda value, digits=2: _number(value, f".{digits}f"),
    "signed": lambda value, digits=2: _number(value, f"+.{digits}f"),
    "p": lambda value: "< 0.001" if value is not None and value < 0.001 else _number(value, ".3f"),
    "share": lambda value: _number(value, ".1%"),
    "count": lambda value: _number(value, ",.0f"),
    "value": _value,
}

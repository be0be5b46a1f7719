"""The files that templates may read beside a list, declared once for every command that computes features."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import option

FEATURES = "Features"


@dataclass(frozen=True)
class TemplateFiles:
    """Paths of files that a decoder does not have itself; None where nothing is given."""

    bitext: tuple[str, str] | None = option(
        None,
        "Parallel text, for Model 1 and lexical weights",
        group=FEATURES,
    )
    clusters_src: str | None = option(None, "File with source word clusters of mkcls or Brown", group=FEATURES, rare=True)
    clusters_tgt: str | None = option(None, "File with target word clusters of mkcls or Brown", group=FEATURES, rare=True)
    plugin: list[str] | None = option(None, "Your templates (Python, it is run); repeatable", metavar="FILE", group=FEATURES)


@dataclass(frozen=True)
class ResourceFiles(TemplateFiles):
    """All of them."""

    phrase_table: str | None = option(None, "Moses phrase table, for joint phrase counts", metavar="FILE", group=FEATURES)
    lm: str | None = option(None, "Language model (ARPA), for scores of words", metavar="FILE", group=FEATURES)

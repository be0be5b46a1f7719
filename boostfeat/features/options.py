"""The files that templates may read beside a list, declared once for every command that computes features."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import option

FEATURES = "Features"


@dataclass(frozen=True)
class TemplateFiles:
    """Those that a decoder does not have itself. Paths; None where nothing is given."""

    bitext: tuple[str, str] | None = option(
        None,
        "Parallel text (files SOURCE TARGET): teaches Model 1 beside the references, and lexical weights",
        group=FEATURES,
        rare=True,
    )
    clusters_src: str | None = option(None, "Source word clusters (file) of mkcls or Brown", group=FEATURES, rare=True)
    clusters_tgt: str | None = option(None, "Target word clusters (file) of mkcls or Brown", group=FEATURES, rare=True)
    plugin: list[str] | None = option(
        None, "A Python file of yours with templates; it is run; repeatable", group=FEATURES, rare=True
    )


@dataclass(frozen=True)
class ResourceFiles(TemplateFiles):
    """All of them."""

    phrase_table: str | None = option(
        None, "Moses phrase table (file) with counts, for joint phrase counts", group=FEATURES, rare=True
    )
    lm: str | None = option(None, "Language model (file, ARPA) of the texts, for scores of words", group=FEATURES, rare=True)

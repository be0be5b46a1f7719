"""Options of search. Standard library only: the command line reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.options import check, option

WINDOW = 60  # the longest jump
SEARCH = "Search"


@dataclass(frozen=True)
class SearchOptions:
    """Pruning, with Moses' defaults. 0 means no limit, for distortion -1."""

    stack: int = option(200, "Hypotheses a stack; 0: all", least=0, group=SEARCH)
    beam: float = option(1e-5, "Least ratio to the stack's best; 0: none", least=0, most=1, group=SEARCH)
    table_limit: int = option(20, "Translations of a phrase; 0: all", least=0, group=SEARCH)
    distortion_limit: int = option(6, "Words to jump, unless the ini says it; -1: any", least=-1, most=WINDOW, group=SEARCH)

    def __post_init__(self) -> None:
        check(self)

"""The reference decoder in the loop: trees are scored during search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ...core.errors import InputError
from ...core.files import digest
from ...features.feature_maker import FeatureMaker
from ...features.plan import FeaturePlan
from ...lists.nbest import NBest
from ...model.model import Model
from ..decoder.decoder import Decoded, Decoder
from ..decoder.output import collect
from ..decoder.search_options import SearchOptions
from ..decoder.search_templates import Templates
from ..decoder.system import UNKNOWN, System
from .decoders import Corpus, DecodingPlace


@dataclass(frozen=True)
class ReferenceDecoder:
    """The decoder of this package on the sentences of the run; tables are read once, and only what these sentences need."""

    phrase_table: str
    lm: str
    reordering_table: str | None
    search: SearchOptions
    sentences: tuple[str, ...]  # all that will be decoded
    extra: tuple[str, ...] = ()  # features to list besides those that the model uses
    size: int = 100
    maker: FeatureMaker = field(default_factory=FeatureMaker, repr=False)  # has the files that a model's templates read

    @cached_property
    def decoder(self) -> Decoder:
        only = list(dict.fromkeys(self.sentences))
        system = System.load(phrase_table=self.phrase_table, lm=self.lm, reordering_table=self.reordering_table, only=only)
        return Decoder(system, Model({}), self.search, extra=self.extra, maker=self.maker)

    def templates(self, plan: FeaturePlan) -> Templates:
        """A plan on the tables: all the features that its templates can give."""
        return Templates(self.decoder.system, plan, self.maker)

    def with_model(self, model: Model, templates: Templates | None = None) -> Decoder:
        """The decoder with a model, which may name the penalty for unknown words: as in Moses it counts and is not listed.

        It is a rule (no word is left that a known phrase could translate) rather than a taste: no tuner is to see it. A model
        whose trees ask for it, or a user who does, gets it listed as any other feature.
        """
        asked = {*self.extra}.union(*(tree.features() for tree in model.trees))
        if UNKNOWN in asked:
            return replace(self.decoder, model=model, templates=templates)
        weights = {name: w for name, w in model.weights.items() if name != UNKNOWN}
        hidden = model.weights.get(UNKNOWN, 0.0)
        return replace(self.decoder, model=replace(model, weights=weights), unknown_weight=hidden, templates=templates)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "decoder"}  # another process reads its own

    def check_trees(self, level: str) -> None:
        if level == "global":
            raise InputError("expected trees of level local, found global: search cannot score them; rerank lists with them")

    def check_templates(self) -> None:
        """All that search can have is scored in search."""

    def made_from(self) -> dict[str, Any]:
        files = {name: getattr(self, name) for name in ("phrase_table", "lm", "reordering_table")}
        return {
            "command": "reference",
            **{name: digest(path) if path else None for name, path in files.items()},
            **asdict(self.search),
            "extra": self.extra,
            "size": self.size,
        }

    def decode(self, model: Model, corpus: Corpus, place: DecodingPlace) -> NBest:
        nbest = self.list(model, corpus.source, threads=place.threads, tick=place.tick)
        return corpus.attached(nbest, corpus.name, threads=place.threads)

    def list(
        self,
        model: Model,
        sentences: Sequence[str],
        *,
        threads: int = 1,
        tick: Callable[[int], None] = lambda done: None,
        templates: Templates | None = None,
    ) -> NBest:
        """n-best lists without references of some sentences, numbered from 0. ``templates``: of a model that is still learnt."""

        def counted() -> Iterator[Decoded]:
            for done, result in enumerate(self.with_model(model, templates).decode_all(sentences, threads=threads), 1):
                tick(done)
                yield result

        return collect(counted(), self.size)

"""A model's linear weights as Moses takes them: by feature function, by sparse feature, and of features it does not have."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InputError, counted
from ...formats.moses.ini import Ini
from ...formats.moses.labels import component
from ...model.model import Model
from ..kinds import Known


@dataclass(frozen=True)
class MosesWeights:
    """λ of the model's linear part."""

    dense: dict[str, list[float]]  # by feature function, all its values
    sparse: dict[str, float]
    other: dict[str, float]  # of features that templates made

    @classmethod
    def of(cls, model: Model, known: Known) -> MosesWeights:
        listed_sparse = set(known.nbest.sparse_names.to_pylist()) if known.nbest else set()
        listed_dense = set(known.nbest.global_names) if known.nbest else set()
        unweighed = [name for name in known.nbest.unit_names if not known.is_made(name)] if known.nbest else []
        dense: dict[str, dict[int, float]] = {}
        sparse: dict[str, float] = {}
        other: dict[str, float] = {}
        # a decoder's feature that the list has and the model does not weighs 0: an ini must not keep what it had
        for name, weight in {**dict.fromkeys(unweighed, 0.0), **model.weights}.items():
            producer, k = component(name)
            if known.is_made(name):
                if weight:
                    other[name] = weight
            elif name.split() != [name] or "=" in name:
                raise InputError(f"weight {name!r}: expected a name without blanks and '=' for Moses, found one; rename it")
            elif name in listed_sparse or ("_" in producer and name not in listed_dense):
                sparse[name] = weight
            else:
                dense.setdefault(producer, {})[k] = weight
        whole = {name: [values.get(k, 0.0) for k in range(max(values) + 1)] for name, values in dense.items()}
        return cls(whole, sparse, other)

    def as_in(self, ini: Ini) -> dict[str, list[float]]:
        """The dense weights with as many values as an ini has; those that it does not have are an error."""
        known = ini.weights()
        dense = {name: values for name, values in self.dense.items() if any(values) or name in known}
        for name, values in dense.items():
            if len(values) > len(known.get(name, [])):
                found = f"{len(known[name])}" if name in known else f"weights of {', '.join(known) or 'none'}"
                raise InputError(
                    f"{ini.where}: {name}: expected {counted(len(values), 'weight')}, found {found}; "
                    "give the ini that the lists were decoded with"
                )
        return {name: [*values, *[0.0] * (len(known[name]) - len(values))] for name, values in dense.items()}

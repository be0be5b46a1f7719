"""Which features search can have: every template, in weights and in trees, and whole refusals."""

from __future__ import annotations

import pytest

from boostfeat.core.errors import InputError
from boostfeat.features import TEMPLATES, FeaturePlan
from boostfeat.features.plan import Entry
from boostfeat.search.decoder.searchable import Searchable, searchable

pytestmark = pytest.mark.quick

WORDS_SO_FAR = "the words so far (for a language model as many as its order asks for)"
NEEDS = {  # what search does not have: the last of registry.STATES that a template reads
    **dict.fromkeys(("agreement", "support", "mbr", "slot"), "the whole list"),
    **dict.fromkeys(("hypothesis", "model1_inverse", "expected_length"), "the whole hypothesis"),
    **dict.fromkeys(("repeat", "lm"), WORDS_SO_FAR),
    "place": "all words of the hypothesis",
}
_EDGES = ("jump", "orientation", "previous", "following", "neighbour_sizes", "around", "lm_per_word")
BESIDE = {*_EDGES, "bi", "lo", "ro", "cb", "co"}
AFTER = "decode without it and rerank the list with this model, or learn a model without it"


def one(name: str, *features: str, optional: bool = False) -> FeaturePlan:
    return FeaturePlan((Entry(name, features=features or None, optional=optional),))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template(name: str) -> None:
    """A feature ``f`` of it, which is none of those that an edge itself tells."""
    found = Searchable(one(name, "f"), TEMPLATES)
    why = f"it needs {NEEDS[name]}" if name in NEEDS else None
    assert found.problem("f", in_tree=False) == ("LM0 is the only language model" if name == "lm_per_word" else why)
    assert found.problem("f", in_tree=True) == ("a tree would need the phrases beside it" if name in BESIDE else why)
    assert found.problem("of the decoder", in_tree=True) is None
    why = why or ("the references that teach it would be those of the next lists" if TEMPLATES[name].crossed else None)
    said: list[str] = []
    plan = searchable(one(name, optional=True), TEMPLATES, said.append)
    assert said == ([f"templates left out, which search cannot use: {name} ({why})"] if why else [])
    assert plan == (FeaturePlan() if why else one(name, optional=True))
    if why:
        with pytest.raises(InputError) as error:
            searchable(one(name), TEMPLATES, said.append)
        assert str(error.value) == f"template {name!r}: search cannot use it, because {why}; learn without it"
    else:
        assert searchable(one(name), TEMPLATES, said.append) == one(name)


@pytest.mark.parametrize(
    ("template", "name", "fine"),
    [
        ("jump", "jump.far", True),
        ("orientation", "ori.<left", True),
        ("orientation", "ori.>left", False),
        ("previous", "prev.none", True),
        ("previous", "prev.LM0", False),
        ("following", "next.none", True),
        ("lm_per_word", "lm.word.LM0", True),
        ("lm_per_word", "lm.word.LM0<q90", True),
        ("lm_per_word", "lm.word.LM1", False),
    ],
)
def test_what_an_edge_tells_trees_can_test(template: str, name: str, fine: bool) -> None:
    assert (Searchable(one(template, name), TEMPLATES).problem(name, in_tree=True) is None) == fine


def test_refusals_are_by_name() -> None:
    """Of what is used or tested; of several features of a template the first by name, of language models each."""
    entries = (Entry("mbr", features=("mbr.b", "mbr.a")), Entry("lm_per_word", features=("lm.word.LM0", "lm.word.LM1")))
    entries = (*entries, Entry("length", features=("len.src",)), Entry("around", features=("around.prev.none",)), Entry("slot"))
    products = (("len.src", "own"), ("len.src", "around.prev.none"), ("LM0", "len.src"))
    known = Searchable(FeaturePlan(entries, products=products), TEMPLATES)
    known.refuse(["len.src", "lm.word.LM0", "around.prev.none", "len.src*own", "own"], {"len.src": "t1"})
    cases = [
        (["mbr.b", "mbr.a"], {}, "the feature 'mbr.a' (template 'mbr')", "it needs the whole list"),
        (["slot:b", "slot:a"], {}, "the feature 'slot:a' (template 'slot')", "it needs the whole list"),  # names are still learned
        (["lm.word.LM1", "lm.word.LM0"], {}, "the feature 'lm.word.LM1' (template 'lm_per_word')", "LM0 is the only language model"),
        ([], {"around.prev.none": "t7"}, "tree 't7': the feature 'around.prev.none' (template 'around')", "a tree would need the phrases beside it"),
        (["len.src*around.prev.none"], {}, "the feature 'len.src*around.prev.none'", "'around.prev.none' depends on what stands beside a phrase"),
        (["LM0*len.src"], {}, "the feature 'LM0*len.src'", "'LM0' depends on what stands beside a phrase"),
    ]  # fmt: skip
    for used, tested, what, why in cases:
        with pytest.raises(InputError) as error:
            known.refuse(used, tested)
        assert str(error.value) == f"{what}: expected one that search can compute, found that {why}; {AFTER}"

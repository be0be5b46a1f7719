"""Small search graphs: random ones with every derivation enumerated, and a file of each format by hand."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from boostfeat.search.graphs.graph import Graph, GraphBuilder

Edges = list[tuple[int, list[int], list[str | int], float]]  # head, tails, target, score


@st.composite
def hypergraphs(draw: st.DrawFn) -> Edges:
    """Up to 5 nodes; whole-numbered scores, so that sums are exact and ties are many."""
    edges: Edges = []
    for head in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1 if head == 0 else 0, 3))):
            tails = draw(st.lists(st.integers(0, head - 1), max_size=2)) if head else []
            words: list[str | int] = draw(st.lists(st.sampled_from("ab"), max_size=2))
            target = draw(st.permutations([*words, *range(len(tails))]))
            edges.append((head, tails, target, float(draw(st.integers(-3, 3)))))
    return edges


def build(edges: Edges, order: list[int] | None = None) -> tuple[Graph, np.ndarray]:
    """The graph, its last node the goal, and its edge scores; with ``order``, nodes are renumbered by it."""
    n = max(e[0] for e in edges) + 1
    number = dict(enumerate(order or []))
    builder = GraphBuilder(lambda e: f"test:{e}")
    for head, tails, target, score in edges:
        builder.edge(number.get(head, head), [number.get(t, t) for t in tails], target, score=score)
    graph = builder.finish(n, number.get(n - 1, n - 1))
    return graph, graph.score


def enumerate_all(edges: Edges, limit: int) -> list[tuple[float, str]]:
    """The naive twin: (score, string) of every derivation of the last node."""
    found: dict[int, list[tuple[float, list[str]]]] = {}
    for head in range(max(e[0] for e in edges) + 1):
        found[head] = []
        for _, tails, target, score in (e for e in edges if e[0] == head):
            for parts in product(*(found[t] for t in tails)):
                tokens = [w for x in target for w in (parts[x][1] if isinstance(x, int) else [x])]
                found[head].append((score + sum(p[0] for p in parts), tokens))
                assume(len(found[head]) <= limit)
    return [(score, " ".join(tokens)) for score, tokens in found[head]]


def _line(hyp: str, transition: str, forward: int, covered: str, scores: str, out: str) -> str:
    head, _, recombined = hyp.partition(" recombined")
    recombined = " recombined" + recombined if recombined else ""
    return (
        f"4 {head} score=-7.0 transition={transition}{recombined} forward={forward} fscore=-1.0 covered={covered} "
        f'scores="{scores} " out="{out}"\n'
    )


OSGX = "".join(
    [
        "4 hyp=0 stack=0 forward=1 fscore=-2.000\n",
        _line("hyp=1 stack=1 back=0", "-1.000", 3, "0-0", "core=(-1.000,2.000) d_a=1", "das|the"),
        _line("hyp=2 stack=1 back=0 recombined=1", "-1.500", 3, "0-0", "core=(-1.500,2.500)", "das|that"),
        _line("hyp=3 stack=2 back=1", "-1.000", -1, "1-1", "core=(-1.000,0.000)", "haus|house"),
        _line("hyp=5 stack=2 back=0", "-9.000", -1, "0-1", "core=(-9.000,0.000)", "das haus|"),
        _line("hyp=4 stack=2 back=2 recombined=3", "-1.250", -1, "1-1", "core=(-1.250,1.000)", "haus|house"),
        "7 hyp=0 stack=0 forward=-1 fscore=0.000\n",
    ]
)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


HYPERGRAPH = """\
# target ||| features ||| source-covered
4 5
# node 0
1
<s> |||  ||| 0
# node 1
2
[0] the ||| WordPenalty0=-1.0 TM_1=0.5 ||| 1
[0] # that ||| WordPenalty0=-2.0 TM_1=0.25 WT_das~that=1 ||| 1
# node 2
1
[1] house ||| WordPenalty0=-1.0 TM_1=-0.5 ||| 2
# node 3
1
[2] </s> |||  ||| 2
"""


FOREST = (
    r'{"rules":[1,"[X] ||| das ||| the ||| P=1",2,"[X] ||| [X,1] haus [X,2] ||| [2] house [1] \/",3,"[S] ||| [X,1] ||| [1]"],'
    '"features":["P","Glue"],'
    '"edges":[{"tail":[],"feats":[0,1],"rule":1},{"tail":null,"feats":["Own",0.5],"rule":"[X] ||| das ||| that"}],'
    '"node":{"in_edges":[0,1],"cat":"X"},'
    '"edges":[{"tail":[],"spans":[2,3,-1,-1],"feats":[],"rule":1}],"node":{"in_edges":[2],"cat":"X"},'
    '"edges":[{"tail":[0,1],"feats":[0,-2.5],"rule":2}],"node":{"in_edges":[3],"cat":"X"},'
    '"edges":[{"tail":[2],"feats":[],"rule":3}],"node":{"in_edges":[4],"cat":"Goal"}}\n'
)


FI_EN_CORE = [
    *("UnknownWordPenalty0", "WordPenalty0", "PhrasePenalty0"),
    *(f"TranslationModel0_{i}" for i in range(4)),
    *(f"LexicalReordering0_{i}" for i in range(6)),
    *("Distortion0", "LM0"),
]


def fi_en_weights(ini: Path) -> dict[str, float]:
    lines = [line.split() for line in ini.read_text().partition("[weight]")[2].splitlines() if "= " in line]
    values = [(name.rstrip("="), list(map(float, v))) for name, *v in lines]
    return {name if len(v) == 1 else f"{name}_{i}": x for name, v in values for i, x in enumerate(v)}

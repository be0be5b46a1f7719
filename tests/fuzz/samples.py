"""Small samples of every kind of file, all made up."""

from __future__ import annotations

from typing import Any

from boostfeat import __version__

PLAIN = """0 ||| taming politicians ||| d= 0 -1.5 lm= -3 ||| -4.5 ||| 0-1=0 2=1 ||| 0-0 2-1
0 ||| taming ||| d= 0 -2.5 lm= -2.25 ||| -5 ||| 0-2=0
2 ||| yes ||| d= 1 0 lm= -1e-1 pt_a:b|c= 1 ||| 3
"""
INLINE = "0|||taming |0-1| politicians |2-3| ||| d: 0 -1.5 lm: -3 ||| -4.5\n1 ||| a ||| 0.5 1 ||| 2\n"
ENRICHED = """0 ||| das |0-0,wa=0-0 ,total=-0.5, LM0= -7.5 TM0= -0.5 -2.25| haus gut |1-2,wa=0-0 1-1 ,total=-1, LM0= -1 TM0= -1 0|  \
||| LM0= -8.5 TM0= -1.5 -2.25 P0= 2 ||| -1.5 ||| 0=0 1=1 ||| 0-0 1-1
0 ||| haus |1-1,wa=0-0 ,total=-1, LM0= -1 TM0= -1 0|  ||| LM0= -1 TM0= -1 0 P0= 1 ||| -1
1 ||| nein |0-0,wa=,total=2, LM0= 1.25 TM0= 0 0|  ||| LM0= 1.25 TM0= 0 0 P0= 1 ||| 2 ||| 0=0
"""
CDEC = "0 ||| the house ||| Glue=2 LanguageModel=-3 a=b=1 ||| -4.5\n0 ||| house ||| Glue=1 LanguageModel=-2 ||| -4\n"
JOSHUA = "0 ||| the house ||| tm_pt_0=-1.500 lm_0=-3.000 ||| -4.500 ||| 0-0 1-1\n1 ||| a ||| -1.5 -3 ||| -4.5\n"
PHRASAL = "0 ||| the house ||| LM: -3 TM:lex(f|t): -2.3407E1 ||| -4.5E0 ||| 0-0\n1 ||| a ||| LM: -2 TM:lex(f|t): 0 ||| 1\n"
TRAVATAR = "0 ||| the house ||| -4.5 ||| lm=-3 unk=1\n0 ||| house ||| -5 ||| lm=-4 unk=0\n"
MARIAN = """0 ||| the house ||| WordScores= -1 -0.5 -0.25 ||| F0= -1.75 F1= -1.5 ||| -0.5
0 ||| house ||| 0-0 1-1 ||| WordScores= -1 -0.5 ||| F0= -1.5 F1= -1 ||| -0.75
"""
MARIAN_RESCORED = """0 ||| the house ||| 0-0 1-1 ||| WordScores= -1 -0.5 ||| WordScores= -1 -0.25 R2L= -1.5 ||| F0= -1.5 ||| -0.5
0 ||| house ||| 0.9,0.1 0.2,0.8 ||| WordScores= -1 -0.5 ||| WordScores= -1 -0.5 R2L= -1 ||| F0= -1.5 ||| -0.75
"""
MARIAN_PIECES = "0 ||| ▁the ▁ho use <0xE2> ||| WordScores= -1 -0.5 -0.25 -1 -2 ||| F0= -4.75 Score= 1 ||| -0.5\n"
MARIAN_PLAIN = "the hou@@ se ||| WordScores= -1 -0.5 -0.25 -1\n12 ||| WordScores= -1 -0.5\n"
FAIRSEQ = """| INFO | log
S-1\tdas haus
H-1\t-0.5\tthe house
D-1\t-0.5\tthe house
P-1\t-1.0000 -2.0000 -0.5000
A-1\t0-0 1-1
H-1\t-0.75\thou@@ se
D-1\t-0.75\thouse
A-1\t0.5,0.5 0.25,0.75
P-1\t-3.0000 -0.2500 -1
S-0\thallo
H-0\t-0.25\thello
"""
HYPORADISE = """[{"id": "a", "input": ["one two", "one too"], "output": "one two", "am_score": [-1, -2.5]},
{"input": ["yes"], "output": "no", "am_score": [-0.5], "x": 1}]"""
MLM_SCORING = '{"u": {"hyp_1": {"score": -1, "text": "a b"}, "hyp_2": {"score": -2, "text": "a"}, "ref": "a b"}}'
SOCKEYE = """{"sentence_id": 0, "translations": ["a b", "a"], "scores": [[0.5, 1], [1, 2]], "text": "x", "reference": "a b"}
{"sentence_id": 1, "translation": "a", "score": 0.5}
"""
VOSK = '{"alternatives": [{"confidence": 1.5, "text": "a b", "result": [{"start": 0, "end": 1, "word": "a"}, {"start": 1, "end": 2, "word": "b"}]}]}'
OPENAI = """{"choices": [{"finish_reason": "stop", "message": {"content": "a bc"}, "logprobs": {"content": [{"token": "a", "logprob": -1, \
"bytes": [97], "top_logprobs": [{"token": "a", "logprob": -1}]}, {"token": " b", "logprob": -2, "bytes": [32, 98], "top_logprobs": []}, \
{"token": "c", "logprob": -2, "bytes": [195], "top_logprobs": []}]}}]}
{"choices": [{"text": "a b", "logprobs": {"tokens": ["a", " b"], "token_logprobs": [-1, -2]}}]}
"""
ESPNET = "u1 one two\nu2 \nu3 yes\n"
ESPNET_SCORES = "u1 tensor(-3.25)\nu2 -1e1\nu3 tensor(-0.5, device='cuda:0')\n"
JOINED_COLUMN = '[{"mt": "the house", "x": 1}, {"mt": "a", "x": -0.5}, {"mt": "yes", "x": 1e3}]'
JOINED = "-1 -2\n-3\n-0.5\n"  # numbers of the words of three hypotheses: the house, a, yes
JOINED_JSON = """{"tokens": ["▁the", "▁ho", "use"], "logprobs": [-1, -2, -3, -0.5]}
{"tokens": ["▁a"], "logprobs": [-1]}
{"tokens": ["yes"], "scores": [-1, -2]}
"""
JOINED_LIST = "0 ||| a ||| lm= -1 ||| -1\n0 ||| the house ||| lm= -2 ||| -2\n1 ||| yes ||| lm= -3 ||| -4\n"
TABBED = "the house\t-1\na hou@@ se\t-2\n\t-3\nyes\t1e-1\n"
COUNTED_LINES = "NC=1\nthe house\nNC=2\nyes\n▁no ▁o ne\n"
NUMBERS = "1\n-2.5\n1e-3\n"
NUMBERS_TSV = "name\tx\na\t1\nb\t-3e1\n"
NUMBERS_JSON = '{"hyp": [{"src": "a", "mt": "b", "COMET": {"x": 0.5}}, {"src": "c", "mt": "d", "COMET": {"x": 1}}]}'
RATIO_TSV = "name\tx\ty\na\t1\t2\nb\t3\t4\n"
RATIO_JSON = '{"hyp": [{"mt": "b", "x": 0.5, "y": 2}, {"mt": "d", "x": 1, "y": 0}]}'
TOKENS_JSON = '{"tokens": ["▁a", "b"], "logprobs": [-1, -2, -3]}\n{"tokens": [], "logprobs": []}\n'
JSONL = """{"boostfeat": "nbest/1", "unit_features": ["tm0", "lm"], "hyp_features": ["n"], "sparse_features": ["pt:das|the"]}
{"id": 0, "source": "das haus", "refs": ["the house"], "hyps": [{"text": "the house", "score": -4.4, "features": {"n": 1.0}, \
"units": [{"src": [0, 1], "tgt": [0, 1], "x": [-0.3, -1.2], "sparse": {"pt:das|the": 1}}, {"src": [1, 2], "tgt": [1, 2], \
"x": [0, 1e-3], "align": "0-0", "score": 0.5, "src_text": "haus", "tgt_text": "house"}]}, {"text": "a \\u00e4", "units": []}]}
{"id": 3, "refs": ["x"], "hyps": []}
"""

JSONL_DENSE = """{"boostfeat": "nbest/1", "unit_features": ["tm0", "lm"], "hyp_features": ["n"]}
{"id": 0, "source": "das haus", "refs": ["the house"], "hyps": [{"text": "the h\\u00f6use", "score": -4.4, "features": {"n": 1}, "units": [{"src": [0, 1], "tgt": [0, 1], "x": [-0.3, -1.2], "align": "0-0", "score": null}, {"src": [1, 2], "tgt": [1, 2], "tgt_text": "a \\"b\\"", "x": [-0.5, -2.7e1]}]}, {"text": "house", "features": {"n": 2.5}}]}
{"id": 3, "hyps": [{"text": "", "score": null, "features": {"n": -0.25}, "units": [{"src": [0, 2], "tgt": [0, 0], "src_text": "x", "x": [1, 0]}]}]}
"""

OSGX = """0 hyp=0 stack=0 forward=1 fscore=-1.713
0 hyp=1 stack=1 back=0 score=-1.0 transition=-1.0 forward=3 fscore=-1.2 covered=0-0 scores="core=(0.000,-1.500,2.000) " out="das|the"
0 hyp=2 stack=1 back=0 score=-2.0 transition=-2.0 recombined=1 forward=-1 fscore=-2 covered=0-0 scores="core=(1,0,0) " out="das|that"
0 hyp=3 stack=2 back=1 score=-2.5 transition=-1.5 forward=-1 fscore=-2.5 covered=1-1 scores="core=(1,0,0.5) s_a=1" out="haus|house"
2 hyp=0 stack=0 forward=4 fscore=0.000
2 hyp=4 stack=1 back=0 score=-1 transition=-1 forward=-1 fscore=-1 covered=0-0 scores="core=(0,1,2) " out="ja|yes"
"""
HYPERGRAPH = """# target ||| features ||| source-covered
4 5
# node 0
1
<s> ||| ||| 0
# node 1
2
[0] a file ||| WordPenalty0=-2.0 TranslationModel0_1=-1.0 ||| 1
[0] file ||| WordPenalty0=-1.0 TranslationModel0_1=-0.5 sparse=1 ||| 1
# node 2
1
[1] is ||| WordPenalty0=-1 ||| 2
# node 3
1
[2] </s> ||| ||| 2
"""
FOREST = """{"rules":[1,"[X] ||| das ||| the ||| A=1",2,"[X] ||| [X,1] haus ||| [1] house ||| A=1",3,"[S] ||| [X,1] ||| [1]"],\
"features":["A","B"],"edges":[{"tail":[],"feats":[0,1.5,1,-2],"rule":1}],"node":{"in_edges":[0],"cat":"X"},\
"edges":[{"tail":[0],"feats":[0,-1e-3],"rule":2},{"tail":[0],"feats":["C",1],"rule":2}],"node":{"in_edges":[1,2],"cat":"X"},\
"edges":[{"tail":[1],"feats":[],"rule":3}],"node":{"in_edges":[3],"cat":"S"}}
"""
PLF = """((('sí', 0, 1),),(('para', -0.25, 1),('pa\\'sa', -1.5e0, 2),),(("eso", -0.5, 1),),)
()

((('a b', -1, 1),('*EPS*', -0.5, 1),),)
"""
SLF = """# a comment
VERSION=1.0
UTTERANCE="u 1.fea" lmscale=2.0 wdpenalty=-1.0 base=10
N=4 L=4
I=0 t=0.00
I=1 t=0.31 W=one
I=2 t=0.52
I=3 t=0.90
J=0 S=0 E=1 a=-3.0 l=-1.0
J=1 S=0 E=1 W=w\\303\\266n v=2 a=-2.0 l=-1.75 p=0.5
J=2 S=1 E=2 W="two two" a=-4 l=-0.5 r=-1 x1=2
J=3 S=2 E=3 W=!NULL a=0 l=-0.25
.
VERSION=1.1
start=1 end=0 dir=b
I=0
I=1 W=a
J=0 START=1 END=0 acoustic=-1 p=0.25
"""
WEIGHTS = {"WordPenalty0": 1.0, "TranslationModel0_1": 0.5, "A": 1.0, "B": -0.5}
TREES = [
    {"name": "tree.000", "weight": 0.8, "leaf": "linear", "on": "TM0_1",
     "nodes": [{"feature": "PhraseCount", "threshold": 2.0, "left": 1, "right": 2}, {"value": 2.0}, {"value": 1.0}]},
    {"name": "tree.001", "weight": -1, "leaf": "constant", "nodes": [{"value": 1e-3}]},
    {"name": "tree.002", "weight": 1, "leaf": "affine", "on": "LM0", "nodes": [
        {"feature": "LM0", "threshold": 0, "left": 1, "right": 4}, {"feature": "d", "threshold": -1.5, "left": 2, "right": 3},
        {"value": 1, "intercept": 0}, {"value": 0, "intercept": 1}, {"value": 0, "intercept": -1}]},
]  # fmt: skip
MODEL = {"boostfeat": "model/1", "level": "local", "weights": {"LM0": 0.21, "d": -1, "ä €": 0}, "trees": TREES,
         "config": {"seed": 1}, "history": [{"round": 0, "loss": 0.5}]}  # fmt: skip
TEMPLATES_TOML = (
    'include = ["base"]\nmin_count = 2\nclusters = 16\nproducts = "top:20"\n[templates.length]\n[templates.pt]\nhash = 8\n'
)
GROUPS = '[[group]]\nmatch = "LM*"\nfreeze = true\n[[group]]\nmatch = "TM?_[01]"\nl1 = 0.5\nl2 = 2\nc = 1e-3\n'
INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=phrase-table input-factor=0 output-factor=0
KENLM name=LM0 factor=0 path=lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
LM0= 0.0693
TranslationModel0= 0.0986 0.0044 0.0387 0.0323
"""
GRAPH_INI = """[feature]
WordPenalty
KENLM name=LM0 factor=0 path=lm.arpa order=3
Distortion
[weight]
WordPenalty0= 1
LM0= 0.0693
Distortion0= 0.3
"""
ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-2.5\t<unk>
-99\t<s>\t-0.5
-1.5\t</s>
-0.75\tthis\t-0.25
-1\tis\t0

\\2-grams:
-0.5\t<s> this
-0.25\tthis is
-0.125\tis </s>

\\end\\
"""
TABLE = """das ||| the ||| 0.5 0.25 0.125 1 ||| 0-0 ||| 9 8 3 ||| |||
das haus ||| the house ||| 0.5 0.25 0.125 1e-3 ||| 0-0 1-1 ||| 9 8 2 ||| |||
haus ||| house ||| 1 1 1 1 ||| 0-0 ||| 2 2 2
"""
REORDERING = "das ||| the ||| 0.5 0.25 0.25 0.6 0.2 0.2\nhaus ||| house ||| 0.8 0.1 0.1 0.4 0.5 0.1\n"
LINES = "das ist ein haus\n\nja , das haus\n"
SPARSE = "# weights\nLM0= 0.5\nTM0= 0.1 0.2\npt_a:b -1e-3\n"
CDEC_WEIGHTS = "# weights\nGlue 1.5\nLanguageModel -0.5\npt:a|b 1e-3\n"
MKCLS = "das\t1\nhaus\t2\nist 13\n"
BROWN = "0110\tdas\t12\n10\thaus\t7\n"
RESULT = {
    "name": "decoder",
    "method": "decoder",
    "feature_set": "sparse",
    "level": None,
    "features": 3,
    "trees": 0,
    "metric": "bleu-sbp",
    "dev": {"bleu-sbp": 1.0},
    "test": {"bleu-sbp": 1.5, "ter": None},
    "confidence": [1, 2.5],
    "p_bootstrap": 0.5,
    "p_stratified": None,
    "against": {"decoder": None},
    **dict.fromkeys(("seconds", "search_seconds", "peak_mb"), 1.5),
    "chosen": {"l2": 1},
    "tried": [{"params": {"l2": 1}, "select": 1.5}],
    "runs": [{"seed": 0}],
    "choice": "choices.json",
}
RESULTS = [RESULT, {**RESULT, "name": "x", "method": "pro", "model": "model.json"}]
OUTCOME = {"on": "test", "difference": 0.5, "error": 0.2, "p": None, "test": "counts", "verdict": "shown"}
RUN: dict[str, Any] = {
    "config.json": {
        "boostfeat": "compare/1",
        **{"command": "boostfeat compare", "version": "0.2.0", "trials": 10, "seeds": [0], "signatures": {}, "versions": {}},
        "inputs": {"test": {"path": "test.nbest"}},
        "options": {"baseline": "decoder"},
    },
    "results.json": RESULTS,
    "choices.json": {"test": [0, 1]},
    "model.json": MODEL,
    "paper.json": {
        "title": "A paper",
        "question": "Is it?",
        "findings": [{"says": "It is", "paper": "+1", "here": [OUTCOME]}],
        "tables": [
            {
                "title": "Table 1",
                "kind": "systems",
                "finding": "holds",
                "header": ["a", "b"],
                "rows": [["x", "1"]],
                "differs": ["lists"],
                "panels": [["x"]],
            }
        ],
        "differs": ["other data"],
        "rows": {"x": "a row"},
    },
}
KEPT_FIT: dict[str, Any] = {
    "made_from": {"system": "pro", "seed": 1, "inputs": [["dev", "ab"]]},
    "select": 0.25,
    "seconds": 1.5,
    "peak_mb": 250.5,
    "model": MODEL,
}
KEPT_SYSTEM = {
    "made_from": {"seed": 1},
    "models": ["models/pro.json"],
    "chosen": {},
    "features": 3,
    "seconds": 1.5,
    "scores": [{"test": {"bleu": 0.5}}],
}
KEPT_LOOP = {"boostfeat": "loop/1", "made_from": {"seed": 1, "version": __version__}}

"""Everything a user can hand to a command: how it is read, small samples of it, and what a good result is."""

from __future__ import annotations

import base64
import bz2
import contextlib
import gzip
import io
import json
import lzma
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from strategies import plain
from synthetic import SyntheticOptions, synthetic_nbest
from toy_systems import random_model, random_ngrams, random_pairs, write_system

from boostfeat import formats
from boostfeat.compare.runner import Folder
from boostfeat.compare.systems import SYSTEMS
from boostfeat.compare.tasks import SUFFIX, Fitted, KeptFits, key_of
from boostfeat.core.arrays import F64
from boostfeat.core.errors import InputError
from boostfeat.core.feature_table import FeatureTable
from boostfeat.core.files import read_bytes, read_chunks, read_lines
from boostfeat.core.strict_json import read_json
from boostfeat.core.text import split_words
from boostfeat.export.moses.writing import table_name
from boostfeat.features.clusters import read_clusters
from boostfeat.features.feature_maker import FeatureMaker, with_plan
from boostfeat.features.language_model import LanguageModel
from boostfeat.features.lexicon import Bitext
from boostfeat.features.plan import Entry, FeaturePlan
from boostfeat.features.registry import GIVEN
from boostfeat.features.templates import TEMPLATES
from boostfeat.formats import jsonl
from boostfeat.formats.bar_lines import BarLines
from boostfeat.formats.importing import read_other, read_tokens
from boostfeat.formats.lines import read_systems
from boostfeat.formats.moses.ini import Ini, read_weights
from boostfeat.formats.moses.table_files import Entries, read_entries, read_phrase_counts, spliced
from boostfeat.lists.build import ReadOptions, attach, with_tokenizer
from boostfeat.lists.joining import join_column, join_list, join_tokens
from boostfeat.lists.nbest import NBest, strings
from boostfeat.lists.quality import join_qualities
from boostfeat.lists.store import read_store, write_store
from boostfeat.lists.tables import read_numbers
from boostfeat.lists.words import checked_links
from boostfeat.model.model import Model
from boostfeat.model.model_file import pack, unpack
from boostfeat.report import run_folder as run
from boostfeat.rerank.reranker import Reranker
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.lattice import Derivation
from boostfeat.search.decoder.output import collect
from boostfeat.search.decoder.setup import read_setup
from boostfeat.search.decoder.system import PhraseSystem, read_phrase_table, with_reordering
from boostfeat.search.graphs.graph_files import read_graphs
from boostfeat.search.graphs.rescoring import EdgeScorer, kbest_lists
from boostfeat.search.loop import driver
from boostfeat.search.loop.decoders import read_start, write_ini
from boostfeat.search.loop.driver import LoopFolder
from boostfeat.search.loop.online import State
from boostfeat.tuners.base import Groups

from . import samples as made
from .mutate import BINARY, JSON, TEXT, VALUE, Mutation

REAL = Path(os.environ.get("BOOSTFEAT_REAL_DATA", Path(__file__).parents[3] / "shared" / "real"))
OPTIONS = ReadOptions(size=8, warn=lambda message: None)
SENTENCE = "a b e c"
TWINS = 1  # of so many inputs one is also given to the plain twin of a compiled reader; one plan used; one list written


@dataclass(frozen=True)
class Reader:
    """``read`` raises InputError or gives something that ``check`` finds good."""

    samples: Callable[[], list[bytes]]
    read: Callable[[str], Any]
    check: Callable[[Any], None] = lambda found: None
    mutations: tuple[Mutation, ...] = TEXT
    name: str = "input"  # of the file
    real: str = ""  # real files to take pieces from, a pattern


# ---------------------------------------------------------------------------------------------------------------------
# What is good
# ---------------------------------------------------------------------------------------------------------------------


def good_list(nbest: NBest) -> None:
    """What __post_init__ does not see: finite numbers, UTF-8, places inside the texts."""
    for column in (nbest.X, nbest.extra, nbest.units.sparse.val, nbest.extra_sparse.val):
        assert np.isfinite(column).all()
    assert not np.isinf(nbest.score).any()
    lengths = np.array([len(split_words(text)) for text in nbest.text.to_pylist()])
    ends = np.where(nbest.tgt_start >= 0, nbest.tgt_start + nbest.units.tgt_len[nbest.unit_idx], 0)
    assert (ends <= np.repeat(lengths, np.diff(nbest.unit_ptr))).all()
    good_columns(nbest)
    if zlib.crc32("".join(nbest.text.to_pylist()).encode()) % TWINS == 0:
        good_copy(nbest, sorted(formats.WRITERS)[nbest.n_hyps % len(formats.WRITERS)])


def good_copy(nbest: NBest, format: str) -> None:
    """What a writer writes reads back as the same hypotheses with the same features; what it cannot express it refuses."""
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"fuzz-copy-{os.getpid()}"
    try:
        with path.open("wb") as stream:
            formats.write(nbest, stream, format=format)
        if nbest.n_hyps:
            again = formats.read(path, ReadOptions(allow_mismatch=True, warn=lambda message: None), format=format)
            assert again.text.equals(nbest.text)
            assert named_features(again) == named_features(nbest)
    except InputError as error:
        assert "instead" in str(error), error  # of writing, not of reading
    finally:
        path.unlink(missing_ok=True)


def named_features(nbest: NBest) -> list[dict[str, str]]:
    """Of each hypothesis, to nine digits: sums over units are rounded."""
    dense, sparse = nbest.global_features.tolist(), nbest.global_sparse
    out = [{n: v for n, v in zip(nbest.global_names, row, strict=True)} for row in dense]
    names = nbest.sparse_names.to_pylist()
    for h, row in enumerate(out):
        at = slice(sparse.indptr[h], sparse.indptr[h + 1])
        row |= {names[j]: v for j, v in zip(sparse.indices[at].tolist(), sparse.data[at].tolist(), strict=True)}
    return [{n: f"{v:.9g}" for n, v in row.items() if abs(v) > 1e-9} for row in out]


def good_columns(nbest: NBest) -> None:
    units = nbest.units
    for text in (nbest.source, nbest.refs, nbest.text, units.src, units.tgt, units.align, nbest.sparse_names):
        text.validate(full=True)
    assert (np.diff(nbest.ids, prepend=-1) > 0).all()
    assert units.src_len.min(initial=0) >= -1
    assert nbest.src_start.min(initial=0) >= -1


def good_store(nbest: NBest) -> None:
    """Values may be any, but nothing that is done with the list leaves its arrays."""
    good_columns(nbest)
    if nbest.has_stats and nbest.n_hyps:
        assert nbest.stats.min() >= 0
    formats.write(nbest, io.BytesIO(), format="jsonl")
    _ = nbest.take(np.arange(len(nbest))[::-1]), nbest.sum_units(*nbest.weigh({name: 0.0 for name in nbest.global_names}))


def good_model(model: Model) -> None:
    names = sorted(set(chain.from_iterable(tree.features() for tree in model.trees)))
    for tree in model.trees:
        tree.predict(FeatureTable(names, np.zeros((2, len(names)))))
        tree.rules()
    assert Model.from_json(model.to_json(), "again").signature == model.signature
    writable(model.to_json())


def writable(found: Any) -> None:
    """As our own files are written, with every character as it is."""
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


def good_numbers(found: dict[str, float]) -> None:
    assert all(np.isfinite(value) for value in found.values())


def good_ini(ini: Ini) -> None:
    """What it says reads on: written again, it says the same."""
    again = Ini("again", tuple(ini.with_weights(ini.weights()).text.split("\n")[:-1]))
    assert (again.features(), again.weights()) == (ini.features(), ini.weights())


def ini_of_loop(path: str) -> Ini:
    """The ini with other weights and whole paths, as the loop writes it."""
    new = Path(path).with_name("new.ini")
    write_ini({"LM0": 0.5}, new, path)
    new_ini, ini = Ini.read(new), Ini.read(path)
    assert new_ini.named_weights() == {**ini.named_weights(), **({"LM0": 0.5} if "LM0" in ini.named_weights() else {})}
    return ini.located()


def ini_of_export(path: str) -> Ini:
    """The ini with another phrase table, as export writes it."""
    ini = Ini.read(path).require("feature", "weight")
    name = table_name(Model({}), ini, "phrase-table")
    return ini.with_table(name, n_scores=5, path="new", hidden=1).with_weights({name: [0.5] * 5})


def good_entries(parts: list[Entries]) -> None:
    """Every field can be asked for, and lines that get nothing more keep their fields."""
    for entries in parts:
        with contextlib.suppress(InputError):
            assert np.isfinite(entries.logs(np.float32)).all()
        with contextlib.suppress(InputError):
            entries.joint_counts(needed=False)
        lines = spliced(entries, strings([""] * len(entries))).split(b"\n")[:-1]
        assert len(lines) == len(entries)
        for row, line in enumerate(lines):
            assert [field.strip(b" \t\r") for field in line.split(b"|||", 3)[:3]] == [
                entries.raw(row, f).strip(b" \t\r") for f in range(3)
            ]


# ---------------------------------------------------------------------------------------------------------------------
# Lists and graphs
# ---------------------------------------------------------------------------------------------------------------------


def generated(**sizes: int) -> NBest:
    return synthetic_nbest(SyntheticOptions(**{"sentences": 2, "hyps": 3, "features": 4, "slots": 2, "choices": 2, **sizes}))


def written(format: str) -> bytes:
    stream = io.BytesIO()
    formats.write(generated(), stream, format=format)
    return stream.getvalue()


def a_list(
    name: str,
    *samples: str,
    writer: str = "",
    real: str = "",
    options: ReadOptions = OPTIONS,
    file: str = "input",
    mutations: tuple[Mutation, ...] = TEXT,
) -> Reader:
    def own() -> list[bytes]:
        return [*(sample.encode() for sample in samples), *([written(writer)] if writer else [])]

    return Reader(own, lambda path: formats.read(path, options, format=name), good_list, mutations, file, real)


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """unittest's patch takes longer than most readers."""
    old = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)


def read_twice(format: str) -> Callable[[str], NBest]:
    """By kernels, and every line in Python: the same container, or an error of both."""
    options = ReadOptions(source=[" ".join(f"w{i}" for i in range(60))] * 2, warn=lambda message: None)

    def read(path: str, options: ReadOptions) -> NBest:
        return formats.read(path, options, format=format)

    def all_odd(lines: BarLines) -> np.ndarray:
        lines.odd[:] = True
        return np.zeros(len(lines), np.int64)

    return lambda path: with_twin(read, path, options, BarLines, "ids", all_odd)


def read_search_graph(path: str) -> NBest:
    return formats.read(path, OPTIONS, format="moses-osgx")


def read_any_graphs(path: str) -> NBest:
    """As rescore does: by their content, and the best paths under a model."""
    graphs = read_graphs([path], OPTIONS)
    scorer = EdgeScorer(Model({**made.WEIGHTS, "core_0": 1.0, "lattice": 1.0, "acoustic": 1.0}))
    return kbest_lists(graphs, scorer, ReadOptions(size=4))


def espnet_reader(part: str, sample: str) -> Reader:
    """A file of ESPnet's folder, the others intact: a link there leads to the input."""

    def read(path: str) -> NBest:
        folder = Path(path).parent / "exp"
        if not folder.exists():
            for best, files in ESPNET_FOLDER.items():
                (folder / best).mkdir(parents=True)
                for name, content in files.items():
                    (folder / best / name).write_text(content)
            (folder / "1best_recog" / part).unlink()
            (folder / "1best_recog" / part).symlink_to(path)
        return formats.read(folder, OPTIONS)

    return Reader(text(sample), read, good_list)


ESPNET_FOLDER = {f"{k}best_recog": {"text": made.ESPNET, "score": made.ESPNET_SCORES} for k in (1, 2)}


def joined(put: Callable[..., NBest], read: Callable[[str], Any], *samples: str) -> Reader:
    """What join puts beside a list of three hypotheses."""
    return Reader(text(*samples), lambda path: put(joined_to(), "x", read(path), path), good_list, VALUE)


@lru_cache
def joined_to() -> NBest:
    """Of 2, 1 and 1 words."""
    return formats_read_text("0 ||| the house |0-0| ||| ||| 1\n0 ||| a |0-0| ||| ||| 2\n1 ||| yes |0-0| ||| ||| 2\n")


def named_graph(path: str) -> NBest:
    """A graph whose values are named by an ini, which is the input."""
    graph = os.path.join(os.path.dirname(path), "graph")
    if not os.path.exists(graph):
        Path(graph).write_text(made.OSGX)
    return formats.read(graph, ReadOptions(size=8, names=tuple(Ini.read(path).score_names())), format="moses-osgx")


def streamed(path: str) -> list[NBest]:
    """As rerank --stream reads."""
    with open(path, "rb") as lines:
        return list(jsonl.stream(lines, OPTIONS, name=path))


def with_references(path: str) -> NBest:
    """The input as references and as source of a list."""
    lines = [line for _, line in read_lines(path)]
    nbest = with_tokenizer(joined_to(), "13a")
    return attach(nbest, source=lines, refs=[lines, lines], name=path)


def counted_twice(path: str) -> NBest:
    """Lattices of two files, whose sentences follow each other."""
    return formats.read_all([path, path], OPTIONS)


def systems_of(path: str) -> NBest:
    """The outputs of two systems, one of them the input."""
    other = os.path.join(os.path.dirname(path), "other")
    if not os.path.exists(other):
        Path(other).write_text(made.LINES)
    return read_systems([f"a={path}", f"b={other}"], OPTIONS)


def edited_model(path: str) -> Model:
    """With the signature checked, all damage would end there."""
    return Model.load(path, allow_edited=True)


def packed(path: str) -> str:
    """What a model of this plan would hold."""
    return base64.b64encode(zlib.compress(Path(path).read_bytes())).decode()


@cache
def toy_decoder() -> tuple[Decoder, NBest]:
    """A decoder that knows a few phrases, and its list."""
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        system = PhraseSystem.load(**write_system(Path(folder), random_pairs(rng, per_phrase=2), random_ngrams(rng, 2)))
    decoder = Decoder(system, random_model(rng, system.names))
    return decoder, attach(collect(decoder.decode_all([SENTENCE]), 20), source=[SENTENCE], refs=(), name="toy")


def searched_plan() -> list[bytes]:
    """A plan of all the templates that search can have."""
    asked = FeatureMaker().plan("large,sparse,classes,neighbours,around")
    return plans_of(toy_decoder()[1], *(entry.name for entry in asked.entries))


def plans_of(nbest: NBest, *names: str) -> list[bytes]:
    """A plan of every few of these templates: damage is in one or two of them, and all of a plan are computed."""
    maker, step = FeatureMaker(), -(-len(names) // 3)
    plans = [maker.learn(nbest, maker.plan(",".join(names[k::step]), min_count=1))[1] for k in range(step)]
    return [json.dumps(plan.to_json()).encode() for plan in plans]


def reranked_plan() -> list[bytes]:
    """Plans of all the templates that are computed unit by unit or list by list."""
    given = (
        set(template.reads) & set(GIVEN) or (template.bitext_teaches and not template.crossed) for template in TEMPLATES.values()
    )
    return plans_of(reranked_list(), *(name for name, is_given in zip(TEMPLATES, given, strict=True) if not is_given))


@cache
def reranked_list() -> NBest:
    """Few hypotheses: of the same units, more would take longer and say the same."""
    return attach(collect(toy_decoder()[0].decode_all([SENTENCE]), 6), source=[SENTENCE], refs=[["x e w"]], name="toy")


def weighed(path: str, **others: float) -> Model:
    """A model that carries a plan and weighs all its features."""
    plan = FeaturePlan.load(path)
    weights = {name: 0.01 * (k % 7 - 3) for k, name in enumerate(sorted(plan.features))}
    return with_plan(Model({**others, **weights}), plan)


def search_with(path: str) -> list[Derivation]:
    """Translations under a plan, for one of TWINS inputs: that takes ten times as long as all before it."""
    decoder, _ = toy_decoder()
    decoder = decoder.with_model(weighed(path, **decoder.model.weights))
    return decoder.decode(SENTENCE).nbest(3) if has_turn(path) else []


def rerank_with(path: str) -> F64:
    """Scores of candidates under a plan, for one of TWINS inputs."""
    reranker = Reranker(weighed(path, LM0=0.3))
    return reranker.scores(reranked_list()) if has_turn(path) else np.zeros(0)


def good_scores(found: list[Derivation]) -> None:
    assert all(math.isfinite(derivation.score) for derivation in found)


def has_turn(path: str) -> bool:
    """One of TWINS inputs, by its size, of every kind of damage."""
    return os.stat(path).st_size % TWINS == 0


def with_twin(
    read: Callable[[str, ReadOptions], NBest], path: str, options: ReadOptions, owner: Any, compiled: str, twin: Any
) -> NBest:
    if not has_turn(path):
        return read(path, options)
    fast = attempt(read, path, options)
    with swapped(owner, compiled, twin):
        return agreed(fast, attempt(read, path, options))


def attempt(read: Callable[[str, ReadOptions], NBest], path: str, options: ReadOptions) -> NBest | InputError:
    try:
        return read(path, options)
    except InputError as error:
        return error


def agreed(fast: NBest | InputError, slow: NBest | InputError) -> NBest:
    if isinstance(fast, InputError):
        assert str(fast) == str(slow), f"compiled: {fast}; plain: {slow}"
        raise fast
    assert isinstance(slow, NBest), f"the plain reader says {slow}, the compiled one nothing"
    differ = fast.differences(slow)
    assert not differ or plain(fast) == plain(slow), f"the readers differ in {differ}"  # columns may come in another order
    return fast


# ---------------------------------------------------------------------------------------------------------------------
# Files of our own
# ---------------------------------------------------------------------------------------------------------------------


def store_samples() -> list[bytes]:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"fuzz-sample-{os.getpid()}"
    lists = [generated(sentences=1), attach(formats_read_text(made.PLAIN), source=None, refs=[["a b", "", "c"]], name="x")]
    out = []
    try:
        for nbest in lists:
            write_store(nbest, path)
            out.append(path.read_bytes())
    finally:
        path.unlink(missing_ok=True)
    return out


def formats_read_text(text: str) -> NBest:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"fuzz-text-{os.getpid()}"
    path.write_text(text)
    try:
        return formats.read(path, OPTIONS, format="moses")
    finally:
        path.unlink()


VOCAB = FeaturePlan(
    (Entry("len", features=("len.src", "len.tgt")), Entry("count", {"top": 3}, features=())), n_products=1, products=(("a", "b"),)
)


def text(*samples: str) -> Callable[[], list[bytes]]:
    return lambda: [sample.encode() for sample in samples]


def compressed(compress: Callable[[bytes], bytes]) -> Reader:
    """The bytes are those of a prefix of what an intact file holds, unless the damage is in the data itself."""

    def read(path: str) -> bytes:
        return read_bytes(path) + b"".join(read_chunks(path))

    return Reader(
        lambda: [compress(made.LINES.encode() * 3), compress(made.PLAIN.encode()), compress(b"")], read, mutations=BINARY
    )


def online_state() -> list[bytes]:
    stream = io.BytesIO()
    np.savez(stream, **{f.name: getattr(STATE, f.name) for f in fields(STATE)})
    return [stream.getvalue()]


def beside(file: str, other: str, work: Callable[[str, str], Any]) -> Callable[[str], Any]:
    """A reader of two files, the second intact and written once."""

    def read(path: str) -> Any:
        second = os.path.join(os.path.dirname(path), file)
        if not os.path.exists(second):
            Path(second).write_text(other)
        return work(path, second)

    return read


def of_run(file: str, obj: Any) -> Reader:
    """One file of a comparison's folder, the others intact: the larger ones of them are read only once."""

    def once(load: Callable[[Path], Any]) -> Callable[[Path], Any]:
        kept = lru_cache(maxsize=2)(load)
        return lambda path: load(path) if path.name == file else kept(path)

    model, test = once(Model.load), once(read_store)

    def read(path: str) -> Any:
        folder = Path(path).parent
        if not (folder / "test.nbest").exists():
            write_store(generated(), folder / "test.nbest")
            for name, whole in {**made.RUN, "results.json": made.RUN["results.json"][-1:]}.items():  # one system will do
                if name != file:
                    (folder / name).write_text(json.dumps(whole))
        with swapped(Model, "load", model), swapped(run, "read_store", test):
            return run.load_run(folder)

    return Reader(lambda: [json.dumps(obj).encode()], read, lambda run: writable([s.name for s in run.systems]), VALUE, name=file)


def kept_fit(path: str) -> Fitted | None:
    """A fit in a comparison's folder: where it is damaged, it is made again."""
    kept = KeptFits(Path(path).parent)
    link = kept.folder / f"{key_of(made.KEPT_FIT['made_from'])}{SUFFIX}"
    if not link.exists():
        link.symlink_to(path)
    return kept.find(made.KEPT_FIT["made_from"])


def kept_system(path: str) -> dict[str, Any] | None:
    """What a comparison kept of a system, whose folder is gone on with."""
    folder, system = Folder(Path(path).parent), next(iter(SYSTEMS.values()))
    link = folder.named("systems", system)
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    return folder.finished(system, {"seed": 1}, force=False)


def kept_loop(path: str) -> None:
    """A loop that is gone on with."""
    folder = LoopFolder(Path(path).parent)
    folder.iteration(0).mkdir(exist_ok=True)
    with swapped(driver, "write_json", lambda *_: None):  # the input stays
        folder.open({"seed": 1}, resume=True, force=False)


READERS: dict[str, Reader] = {
    "moses": Reader(
        lambda: [made.PLAIN.encode(), made.INLINE.encode(), written("moses")], read_twice("moses"), good_list, real="moses-tests/*/*nbest*"
    ),
    "moses-enriched": Reader(
        lambda: [made.ENRICHED.encode(), written("moses-enriched")], read_twice("moses-enriched"), good_list, real="fi-en/*enriched.xz"
    ),
    "cdec": a_list("cdec", made.CDEC),
    "joshua": a_list("joshua", made.JOSHUA),
    "phrasal": a_list("phrasal", made.PHRASAL, real="phrasal/*.test"),
    "travatar": a_list("travatar", made.TRAVATAR),
    "marian": a_list("marian", made.MARIAN, made.MARIAN_RESCORED, made.MARIAN_PIECES, made.MARIAN_PLAIN, real="marian/*.txt"),
    "marian-tokens": a_list(
        "marian", made.MARIAN, made.MARIAN_RESCORED, made.MARIAN_PIECES,
        options=ReadOptions(size=8, units="token", source=["das haus"] * 2, warn=lambda message: None),
    ),
    "marian-spm": a_list("marian", made.MARIAN_PIECES, made.MARIAN_PLAIN, options=ReadOptions(subwords="spm", warn=lambda message: None)),
    "fairseq": a_list("fairseq", made.FAIRSEQ),
    "hyporadise": a_list("hyporadise", made.HYPORADISE, mutations=VALUE),
    "mlm-scoring": a_list("mlm-scoring", made.MLM_SCORING, mutations=VALUE),
    "sockeye": a_list("sockeye", made.SOCKEYE, mutations=VALUE),
    "vosk": a_list("vosk", made.VOSK, mutations=VALUE),
    "openai": a_list("openai", made.OPENAI, mutations=VALUE),
    "lines-list": a_list("lines", made.TABBED, made.COUNTED_LINES, options=ReadOptions(n=2, warn=lambda message: None)),
    "opennmt": a_list("opennmt", made.LINES, made.COUNTED_LINES, options=ReadOptions(n=1, warn=lambda message: None)),
    "nemo": a_list("nemo", made.TABBED, options=ReadOptions(n=2, units="token", warn=lambda message: None)),
    "lines-counts": Reader(text("2\n1\n0\n"), beside("list", made.LINES, lambda path, own: formats.read(own, ReadOptions(counts=path), format="lines")), good_list),
    "lines-scores": Reader(
        text(made.NUMBERS, made.JOINED_COLUMN), beside("list", made.LINES, lambda path, own: formats.read(own, ReadOptions(n=1, scores=(path,)), format="lines")), good_list, VALUE
    ),
    "systems": Reader(text(made.LINES), systems_of, good_list),
    "espnet": espnet_reader("text", made.ESPNET),
    "espnet-scores": espnet_reader("score", made.ESPNET_SCORES),
    "join-column": joined(join_column, read_numbers, made.NUMBERS, made.JOINED_COLUMN),
    "join-tokens": joined(join_tokens, read_tokens, made.JOINED, made.JOINED_JSON),
    "join-list": joined(join_list, lambda path: read_other(path, threads=1, warn=lambda message: None), made.JOINED_LIST),
    "quality": Reader(text(made.NUMBERS, "1 2\n3 4\n0 1\n"), lambda path: join_qualities(joined_to(), [f"q={path}"], ["q"]), good_list, VALUE),
    "numbers": Reader(text(made.NUMBERS, made.NUMBERS_TSV, made.NUMBERS_JSON), read_numbers, lambda found: good_numbers(dict(enumerate(found.values))), VALUE),
    "numbers-column": Reader(text(made.RATIO_TSV, made.RATIO_JSON), lambda path: read_numbers(f"{path}:x,y"), mutations=VALUE),
    "numbers-of-tokens": Reader(text(made.NUMBERS, "1 2\n\n-3 4 5\n", made.TOKENS_JSON), read_tokens, mutations=VALUE),
    "jsonl": Reader(lambda: [made.JSONL.encode(), made.JSONL_DENSE.encode(), written("jsonl")], lambda path: jsonl.read(path, OPTIONS), good_list, VALUE),
    "auto": a_list("auto", made.PLAIN, made.ENRICHED, made.CDEC, made.JOSHUA, made.PHRASAL, made.TRAVATAR, made.MARIAN, made.MARIAN_PLAIN, made.FAIRSEQ, made.JSONL, made.OSGX, made.HYPORADISE, made.SOCKEYE, made.PLF, made.SLF, mutations=JSON),
    "moses-osgx": Reader(text(made.OSGX), read_search_graph, good_list, real="fi-en/sg.*.osgx.xz"),
    "moses-osgx-named": a_list("moses-osgx", made.OSGX, options=ReadOptions(size=8, names=("LM0", "d", "TM0_0"), warn=lambda message: None)),
    "moses-hypergraph": a_list(
        "moses-hypergraph", made.HYPERGRAPH, options=ReadOptions(size=8, weights=made.WEIGHTS),
    ),
    "cdec-forest": a_list("cdec-forest", made.FOREST, options=ReadOptions(size=8, weights=made.WEIGHTS), file="3.json", mutations=JSON),
    "plf": a_list("plf", made.PLF, real="lattices/*.plf.*"),
    "htk-slf": a_list("htk-slf", made.SLF),
    "plf-files": Reader(text(made.PLF), counted_twice, good_list),
    "htk-slf-files": Reader(text(made.SLF), counted_twice, good_list),
    "stream": Reader(lambda: [made.JSONL.encode(), written("jsonl")], streamed, lambda found: list(map(good_columns, found)), VALUE),
    "references": Reader(text("das ist\nja\n", "the house .\n\n"), with_references, good_columns),
    "store": Reader(store_samples, read_store, good_store, BINARY),
    "graphs": Reader(text(made.OSGX, made.HYPERGRAPH, made.FOREST, made.PLF, made.SLF), read_any_graphs, good_list, JSON, name="graph.3"),
    "model": Reader(
        lambda: [
            *(json.dumps(made.MODEL, indent=k).encode() for k in (None, 1)),
            json.dumps({**made.MODEL, "boostfeat": "model/2", "features": pack(VOCAB.to_json())}).encode(),
        ],
        edited_model,
        good_model,
        VALUE,
    ),
    "plan": Reader(
        lambda: [json.dumps(VOCAB.to_json()).encode()],
        lambda path: FeaturePlan.from_json(unpack(packed(path), "plan"), "plan"),
        lambda plan: writable(plan.to_json()),
        VALUE,
    ),
    "vocab": Reader(lambda: [json.dumps(VOCAB.to_json()).encode()], FeaturePlan.load, lambda vocab: writable(vocab.to_json()), VALUE),
    "searched-plan": Reader(searched_plan, search_with, good_scores, VALUE),
    "reranked-plan": Reader(reranked_plan, rerank_with, lambda scores: writable(scores.tolist()), VALUE),
    "templates-toml": Reader(text(made.TEMPLATES_TOML), lambda path: FeaturePlan.of(path, TEMPLATES), name="input.toml"),
    "groups-toml": Reader(text(made.GROUPS), Groups.load, lambda groups: groups.frozen(("LM0", "TM0_1"))),
    "start": Reader(text(made.INI, made.SPARSE, made.CDEC_WEIGHTS, json.dumps(made.MODEL)), read_start, good_model, JSON),
    "weights": Reader(text(made.SPARSE, made.CDEC_WEIGHTS), lambda path: read_weights([path]), good_numbers),
    "setup": Reader(text(made.INI), read_setup, lambda ini: good_numbers(ini.weights), real="fi-en/moses.ini"),
    "ini": Reader(text(made.INI), Ini.read, good_ini, real="fi-en/moses.ini"),
    "loop-ini": Reader(text(made.INI), ini_of_loop, good_ini, real="fi-en/moses.ini"),
    "export-ini": Reader(text(made.INI), ini_of_export, good_ini, real="fi-en/moses.ini"),
    "graph-names": Reader(text(made.GRAPH_INI), named_graph, good_list, real="fi-en/moses.ini"),
    "arpa": Reader(text(made.ARPA), LanguageModel.load, lambda lm: lm.words(["this", "is", "is", "x"])),
    "phrase-table": Reader(
        text(made.TABLE), lambda path: (read_phrase_table(path), read_phrase_table(path, ["das haus"])), real="fi-en/system/phrase*.xz"
    ),
    "table-entries": Reader(text(made.TABLE), lambda path: list(read_entries(path)), good_entries, real="fi-en/system/phrase*.xz"),
    "reordering-table": Reader(
        text(made.REORDERING), beside("table", made.TABLE, lambda path, table: with_reordering(read_phrase_table(table), path)),
        real="fi-en/system/reord*.xz",
    ),
    "phrase-counts": Reader(
        text(made.TABLE), lambda path: read_phrase_counts(path, COUNTED.units), good_numbers, real="fi-en/system/phrase*.xz"
    ),
    "clusters": Reader(text(made.MKCLS, made.BROWN), read_clusters),
    "lexicon": Reader(text(made.LINES), beside("other", made.LINES, Bitext.read)),
    "links": Reader(text("0-0 1-1 3-2\n\n0-0\n"), lambda path: [checked_links(line) for _, line in read_lines(path)]),
    "lines": Reader(text(made.LINES), lambda path: list(read_lines(path))),
    "gz": compressed(lambda data: gzip.compress(data, mtime=0)),
    "xz": compressed(lzma.compress),
    "bz2": compressed(bz2.compress),
    "zst": compressed(zstandard.ZstdCompressor(write_checksum=True).compress),
    **{f"run-{Path(file).stem}": of_run(file, obj) for file, obj in made.RUN.items() if file != "model.json"},
    "resume-json": Reader(
        lambda: [json.dumps(made.RUN["config.json"]).encode()], lambda path: read_json(Path(path)), lambda found: writable(list(found or {})), VALUE
    ),
    "kept-fit": Reader(lambda: [json.dumps(made.KEPT_FIT).encode()], kept_fit, mutations=VALUE),
    "kept-system": Reader(lambda: [json.dumps(made.KEPT_SYSTEM).encode()], kept_system, lambda found: writable(found), VALUE),
    "kept-loop": Reader(lambda: [json.dumps(made.KEPT_LOOP).encode()], kept_loop, mutations=VALUE, name="config.json"),
    "online-state": Reader(online_state, lambda path: State.load(Path(path), STATE), mutations=BINARY),
}  # fmt: skip
STATE = State.new(np.zeros(3), 2)
COUNTED = formats_read_text("0 ||| the |0-0| house |1-1| ||| ||| 1\n")


def samples_of(name: str, *, real: bool = True) -> list[bytes]:
    """The samples of a reader, and pieces of real files where there are some."""
    reader = READERS[name]
    pieces = (
        islice(chain.from_iterable(map(_head, sorted(REAL.glob(reader.real)))), 3)
        if real and reader.real and REAL.is_dir()
        else ()
    )
    return [*reader.samples(), *pieces]


def _head(path: Path) -> Iterator[bytes]:
    """A few short lines of a real file; all of a short file."""
    lines, size = [], 0
    for _, line in read_lines(path):
        size += len(line) + 1
        if size > 1000:
            break
        lines.append(line)
    if lines:
        yield "\n".join(lines).encode() + b"\n"


def clean(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)

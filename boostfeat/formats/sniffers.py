"""Sniffers: a predicate for each format, which tells it by the first lines of a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from ..core.text import BLANKS, split_words
from ..lists.tokens import DECODER_SCORE, WORDS
from .fields import is_number

LOOKED_AT = 1000  # lines among which those are
SNIFFED = 20  # lines that are not blank, by which a format is recognised
BLOCK = re.compile(r"\|[0-9]+-[0-9]+,")  # how the scores of a phrase begin in an enriched list
ARC = re.compile(r"[0-9]+ hyp=[0-9]+ stack=[0-9]+ ")
NAME_VALUE = re.compile(r".+=[^=]+", re.DOTALL)  # no space after the sign, unlike in Moses' lists
# ``-moses`` turns the underscores of dense names into hyphens
_JOSHUA_NAME = re.compile(r"(?:^|\s)(?:(?:tm|lm)[-_][^\s=]+|OOV_?Penalty)=")
_MARIAN = re.compile(r"(?:^|\s)WordScores=|^(?:\S+\s+)*?F0=\s*\S+(?:\s+[^\s=]+=\s*\S+)*$")
_OURS = re.compile(rf"(?:^|\s)(?:{WORDS}|{DECODER_SCORE})=")  # a list of Marian that boostfeat wrote, in Moses' format
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


# ---------------------------------------------------------------------------------------------------------------------
# Lines and objects
# ---------------------------------------------------------------------------------------------------------------------


def most_lines(head: str, tells: Callable[[str], bool | None]) -> bool:
    """Whether more of a file's first lines tell of a format than against it; a line may tell neither (None). For sniffing."""
    lines = [line for line in islice(head.split("\n"), LOOKED_AT) if line and not line.isspace()]
    if len(lines) > 1 and not head.endswith("\n"):  # the last may have been cut
        lines = lines[:-1]
    found = [tells(line.removesuffix("\r")) for line in lines[:SNIFFED]]
    return found.count(True) > found.count(False)


def most_fields(head: str, tells: Callable[[list[str]], bool | None]) -> bool:
    """Whether most lines tell of a format by their fields; one that is not ``number ||| text ||| ...`` tells against."""

    def of_line(line: str) -> bool | None:
        parts = [part.strip(BLANKS) for part in line.split("|||")]
        return tells(parts) if len(parts) >= 3 and parts[0].isascii() and parts[0].isdigit() else False

    return most_lines(head, of_line)


def most_objects(head: str, tells: Callable[[set[str]], bool]) -> bool:
    """Whether half of a file's first objects, or more, tell of a format by their keys. For sniffing."""
    found = [tells(keys) for keys in _keys(head)]
    return any(found) and 2 * sum(found) >= len(found)


def _keys(head: str) -> list[set[str]]:
    """The keys of each object, those of an array or one after the other; not what is inside them, nor what texts say."""
    if (begin := re.match(r"\s*(\[\s*)?\{", head)) is None:
        return []
    own, depth, last, found = 2 if begin[1] else 1, 0, "", list[set[str]]()
    for piece in _PIECE.findall(head):
        if piece in "{[":
            depth += 1
            if depth == own:
                found.append(set())
        elif piece in "}]":
            depth -= 1
        elif piece == ":" and depth == own:
            found[-1].add(last[1:-1])
        last = piece
    return found[:-1] if len(found) > 1 and depth >= own else found  # the last may have been cut


# ---------------------------------------------------------------------------------------------------------------------
# Formats
# ---------------------------------------------------------------------------------------------------------------------


def is_jsonl(head: str) -> bool:
    """Look at the keys of its objects; a model and a plan have the first of these too, and no lists."""
    is_list = '"nbest/' in head or '"hyps"' in head
    return is_list and most_objects(head, lambda keys: "boostfeat" in keys or "hyps" in keys)


def is_hyporadise(head: str) -> bool:
    """Look for both keys; objects of servers may have them too, beside what they answered."""
    return most_objects(head, lambda keys: {"input", "output"} <= keys and not keys & {"choices", "translations", "translation"})


def is_mlm_scoring(head: str) -> bool:
    begins = re.match(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{', head)
    return begins is not None and re.search(r'"hyp_\d+"\s*:\s*\{', head) is not None


def _is_sockeye(keys: set[str]) -> bool:
    return ("translations" in keys and "choices" not in keys) or ("sentence_id" in keys and "translation" in keys)


def is_vosk(head: str) -> bool:
    """A result without alternatives tells nothing; it may be the first."""
    return most_objects(head, lambda keys: "alternatives" in keys or keys <= {"text", "result"}) and '"alternatives"' in head


def is_htk_slf(head: str) -> bool:
    if re.match(r"(?:\s*#[^\n]*\n|\s*\n)*(?:VERSION|V)=\S", head):
        return True
    return re.search(r"^N=\d+\s+L=\d+\s*$", head, re.MULTILINE) is not None and re.search(r"^[IJ]=\d", head, re.M) is not None


def is_marian(head: str) -> bool:
    """Whether half of the lines of a head, or more, look like Marian's, with ids or without."""
    lines = [line for line in head.split("\n") if line and not line.isspace()]
    found = sum(map(_is_line_of_marian, lines))
    return found > 0 and 2 * found >= len(lines)


def _is_line_of_marian(line: str) -> bool:
    parts = [part.strip() for part in line.split("|||")]
    if any(_OURS.search(part) for part in parts[2:]):
        return False
    if parts[0].isascii() and parts[0].isdigit() and len(parts) >= 4:
        return any(_MARIAN.search(part) for part in parts[2:-1])
    return len(parts) >= 2 and any(part.startswith("WordScores=") for part in parts[1:])


def _is_cdec(fields: list[str]) -> bool | None:
    if len(fields) < 4:
        return False
    pairs = split_words(fields[2])
    return all(NAME_VALUE.fullmatch(pair) for pair in pairs) if pairs else None


def _is_joshua(fields: list[str]) -> bool | None:
    """A line like cdec's tells neither: none of its names may be one that Joshua gives."""
    if len(fields) < 4 or not is_number(fields[3]):
        return False
    if not fields[2]:
        return None
    if all(is_number(value) for value in split_words(fields[2])):
        return True
    return (_JOSHUA_NAME.search(fields[2]) is not None or None) if _is_cdec(fields) else False


def _is_phrasal(fields: list[str]) -> bool | None:
    """One value after each colon, and a name Moses' old lists (``d: 0 -1.5 lm: -3``) would not have."""
    tokens = split_words(fields[2])
    if not tokens:
        return None
    labels, values = tokens[::2], tokens[1::2]
    if len(labels) != len(values) or not all(n.endswith(":") for n in labels) or any(v.endswith(":") for v in values):
        return False
    return any(name[0].isupper() or ":" in name[:-1] for name in labels)


def _is_travatar(fields: list[str]) -> bool | None:
    if len(fields) != 4 or not is_number(fields[2]):
        return False
    pairs = split_words(fields[3])
    return NAME_VALUE.fullmatch(pairs[0]) is not None if pairs else None


# The stricter ones first: the first that recognises the content reads it.
SNIFFERS: dict[str, Callable[[str], bool]] = {
    "jsonl": is_jsonl,
    "hyporadise": is_hyporadise,
    "mlm-scoring": is_mlm_scoring,
    "sockeye": lambda head: most_objects(head, _is_sockeye),
    "vosk": is_vosk,
    "openai": lambda head: most_objects(head, lambda keys: "choices" in keys or {"custom_id", "response"} <= keys),
    "plf": lambda head: re.match(r"""(?:\s*\(\s*\)\s*\n|\s*\n)*\s*\(\s*\(\s*\(\s*['"]""", head) is not None,
    "htk-slf": is_htk_slf,
    "cdec-forest": lambda head: re.match(r'\s*\{\s*"(rules|features|is_sorted|edges|node)"\s*:', head) is not None,
    "moses-hypergraph": lambda head: re.match(r"# target \|\|\| features|\s*\d+ \d+\s*\n# *node ", head) is not None,
    "moses-osgx": lambda head: most_lines(head, lambda line: ARC.match(line) is not None),
    # a log may come first, of any length
    "fairseq": lambda head: re.search(r"^[SH]-\d+\t", head, re.MULTILINE) is not None and "|||" not in head.split("\n", 1)[0],
    "travatar": lambda head: most_fields(head, _is_travatar),
    "marian": is_marian,
    # a hypothesis without words has no blocks, and tells neither
    "moses-enriched": lambda head: most_fields(head, lambda fields: BLOCK.search(fields[1]) is not None if fields[1] else None),
    "joshua": lambda head: most_fields(head, _is_joshua),
    "cdec": lambda head: most_fields(head, _is_cdec),
    "phrasal": lambda head: most_fields(head, _is_phrasal),
    # content with anything in three fields: the reader then says what is wrong, and in which line
    "moses": lambda head: most_lines(head, lambda line: line.count("|||") >= 2),
}

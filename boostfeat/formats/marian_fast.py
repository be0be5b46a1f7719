"""The fast reader of Marian's lists: a numba kernel over bytes, for lists whose lines all have the fields of the first.

    id ||| text [||| WordScores= v v ...] ||| F0= v [F1= v ...] ||| score

It stops at the first line it does not understand, which is then for the plain reader.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import FormatError
from ..core.files import Block, read_blocks
from ..core.kernels import kernel
from ..lists.build import ReadOptions
from ..lists.tokens import DECODER_SCORE, TokenBuilder, TokenLists
from .byte_kernels import NONE, is_blank, put_bytes, read_number, read_sentence_id, skip_blanks, starts_with
from .columns import BLOCK_BYTES, ColumnReader, Part, Room, labels_of, marks, plain_lines, read_features, string_column

_LABEL = np.frombuffer(b"WordScores=", np.uint8)

# Hypotheses of a block, each on its line of the block (from 0); the scores of tokens stand one after the other.
TokenLines = namedtuple("TokenLines", "sent line score features text text_ptr n_scores scores")


@kernel
def _read_scores(buf, i, end, out, n):  # type: ignore[no-untyped-def]
    """Read ``WordScores= v v ...`` from buf[i:end] into OUT out[n:]; returns the place after the last, -1 if it is not that."""
    i = skip_blanks(buf, i, end)
    if not starts_with(buf, i, end, _LABEL, 0, len(_LABEL)):
        return NONE
    i += len(_LABEL)
    first = n
    while i < end:
        if buf[i] != 32:
            return NONE
        i = skip_blanks(buf, i, end)
        if i == end:
            break
        value, i = read_number(buf, i, end)
        if i < 0:
            return NONE
        out[n] = value
        n += 1
    return n if n > first else NONE


@kernel
def _scan(buf, ends, bars, until, has_scores, labels, out):  # type: ignore[no-untyped-def]
    """Read lines into OUT out; stops before the first one it does not understand, or of sentence ``until``.

    Line l ends at ``ends[l]``; ``bars`` are the positions of all ``|``. Returns (position, hypotheses, scores of tokens, whether
    ``until`` was met).
    """
    n_marks = 4 if has_scores else 3
    n, n_scores, bar, pos, last_id = 0, 0, 0, 0, np.int64(0)
    for line in range(len(ends)):
        end = ends[line]
        if end > pos and buf[end - 1] == 13:  # what Windows adds
            end -= 1
        i = skip_blanks(buf, pos, end)
        if i == end:  # a blank line
            pos = ends[line] + 1
            continue
        first = bar
        while bar < len(bars) and bars[bar] < end:
            bar += 1
        b = bars[first:bar]
        if len(b) != 3 * n_marks:
            break
        fine = True
        for k in range(n_marks):
            fine = fine and b[3 * k + 2] == b[3 * k] + 2
        sent, i = read_sentence_id(buf, i, end)
        if not fine or i < 0 or sent < last_id or skip_blanks(buf, i, b[0]) != b[0]:
            break
        if sent >= until:
            return pos, n, n_scores, True
        begin, stop = b[2] + 1, b[3]
        while begin < stop and is_blank(buf[begin]):
            begin += 1
        while stop > begin and is_blank(buf[stop - 1]):
            stop -= 1
        after = _read_scores(buf, b[5] + 1, b[6], out.scores, n_scores) if has_scores else n_scores
        if after < 0 or not read_features(buf, b[-4] + 1, b[-3], labels, out.features[n]):
            break
        score, i = read_number(buf, skip_blanks(buf, b[-1] + 1, end), end)
        if i < 0 or skip_blanks(buf, i, end) != end:
            break
        out.sent[n], out.line[n], out.score[n], out.n_scores[n] = sent, line, score, after - n_scores
        out.text_ptr[n + 1] = put_bytes(buf, begin, stop, out.text, out.text_ptr[n])
        n, n_scores, last_id, pos = n + 1, after, sent, ends[line] + 1
    return pos, n, n_scores, False


class FastReader(ColumnReader):
    """Reads lists all of whose lines have these features and, if it has a name, scores of tokens."""

    def __init__(self, groups: Sequence[tuple[str, int]], scores: str | None, options: ReadOptions) -> None:
        self.labels, names = labels_of(groups)
        self.scores = scores
        super().__init__((), names, options)

    def parse_block(self, block: Block, room: Room) -> Part:
        buf, ends, bars = marks(block, room)
        n = len(ends)
        lines = TokenLines(
            sent=room.array("sent", n, np.int64),
            line=room.array("line", n, np.int64),
            score=room.array("score", n),
            features=room.array("features", n, width=len(self.extra_names)),
            text=room.array("text", block.end, np.uint8),
            text_ptr=room.array("text_ptr", n + 1, np.int64),
            n_scores=room.array("n_scores", n, np.int64),
            scores=room.array("scores", block.end // 2),
        )
        lines.text_ptr[0] = 0
        end, n, n_scores, is_last = _scan(buf, ends, bars, self.first, self.scores is not None, self.labels, lines)
        sizes = {"text": int(lines.text_ptr[n]), "text_ptr": n + 1, "scores": n_scores}
        own = lines._replace(**{name: column[: sizes.get(name, n)].copy() for name, column in lines._asdict().items()})
        return Part(own, None, np.zeros(0), int(end), int(np.searchsorted(ends, end)), bool(is_last))

    def give(self, lines: Any, builder: TokenBuilder, path: str | Path, before: int) -> None:
        """Hypotheses of a block, after so many lines, to a builder."""
        if not len(lines.sent):
            return
        features = dict(zip(self.extra_names, lines.features.T, strict=True)) | {DECODER_SCORE: lines.score}
        where = [f"{path}:{number}" for number in (lines.line + before + 1).tolist()]
        tokens = string_column(lines.text_ptr, lines.text).to_pylist()
        scores = {} if self.scores is None else {self.scores: (lines.n_scores, lines.scores)}
        builder.add_lists(TokenLists(lines.sent, where, tokens, lines.score, features, scores))


def lines_left(path: str | Path, fast: FastReader | None, builder: TokenBuilder) -> Iterator[tuple[str, str]]:
    """Give a builder what the kernel reads; yields (``file:line``, line) from the first line on that it does not understand.

    A file without any line is an error.
    """
    number, empty, spare = 0, True, list[bytearray]()
    blocks = read_blocks(path, BLOCK_BYTES, spare=spare)
    for block, part in fast.parse(blocks) if fast else ((block, None) for block in blocks):
        start = 0
        if fast and part and not fast.has_stopped:
            fast.give(part.lines, builder, path, number)
            number, start, empty = number + part.n_lines, part.end, empty and not len(part.lines.sent)
            if part.is_last:
                return
            fast.has_stopped = start < block.end
        for found in plain_lines(block.text(start), path, number) if start < block.end else ():
            empty = False
            yield found
        number += block.data.count(b"\n", start, block.end)
        spare.append(block.data)
    if empty:
        raise FormatError(str(path), expected="an n-best list", found="an empty file", fix="check what wrote it")

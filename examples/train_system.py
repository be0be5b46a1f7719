"""How do I get a system and n-best lists from a bitext?  python examples/train_system.py SOURCE TARGET INPUT FOLDER

SOURCE and TARGET are parallel text, one tokenised sentence a line; INPUT are sentences to translate. FOLDER gets phrase table,
reordering table, language model and moses.ini (which Moses reads too), translations and their 100-best lists. Needs only pip:
'boostfeat[train]' brings the word aligner. The weights are Moses' start values: tune them with boostfeat loop.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from boostfeat.core.errors import InputError
from boostfeat.core.files import open_output, read_lines
from boostfeat.model.model import Model
from boostfeat.search.decoder.decoder import Decoder
from boostfeat.search.decoder.output import write_nbest
from boostfeat.search.decoder.setup import SearchOptions, read_setup
from boostfeat.search.decoder.system import PhraseSystem

sys.path.insert(0, str(Path(__file__).with_name("make_data")))
from training import read_bitext, train_system


def main(source: str, target: str, to_translate: str, folder: str) -> list[str]:
    started = time.monotonic()
    sentences = [line for _, line in read_lines(to_translate)]
    ini = read_setup(train_system(*read_bitext(source, target), folder, only=sentences))
    print(f"system in {folder}: {time.monotonic() - started:.0f} s")
    system = PhraseSystem.load(phrase_table=ini.phrase_table, lm=ini.lm, reordering_table=ini.reordering_table, only=sentences)
    decoder = Decoder(system, Model(ini.weights), SearchOptions(distortion_limit=ini.distortion_limit), extra=("count.log",))
    results = list(decoder.decode_all(sentences, threads=2))
    with open_output(Path(folder) / "input.nbest.xz") as stream:
        write_nbest(stream, results, 100)
    best = [result.best.text for result in results]
    with open_output(Path(folder) / "input.out") as stream:
        stream.write("".join(f"{line}\n" for line in best).encode())
    print(f"{len(sentences)} sentences: {time.monotonic() - started:.0f} s")
    return best


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except InputError as error:
        sys.exit(f"train_system: {error}")

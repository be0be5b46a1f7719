"""``python -m boostfeat`` is ``boostfeat``."""

import os
import signal
import sys


def main() -> None:
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # sums of theirs come in any order
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # on busy cores, threads that wait for each other cost more than trees
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are imported: no traceback
    try:
        from .cli import main as run
    except (ImportError, MemoryError, OSError) as error:
        from .core.errors import NO_MEMORY_TO_LOAD, is_out_of_memory

        if not is_out_of_memory(error):
            raise
        sys.stderr.write(f"{NO_MEMORY_TO_LOAD}\n")
        sys.exit(1)

    signal.signal(signal.SIGINT, interrupt)
    run()


if __name__ == "__main__":
    main()

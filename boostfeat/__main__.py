"""``python -m boostfeat`` is ``boostfeat``."""

import gc
import os
import resource
import signal
import sys

from .core import processes

OBJECTS = 20_000  # new ones after which Python looks for circles: while modules and models are read there are none
ADDRESS_SPACE = 1000  # MB: less, and OpenBLAS prints lines of its own, ends the program or asks for ever while it is loaded


def main() -> None:
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # sums of theirs come in any order
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # on busy cores, threads that wait for each other cost more than trees
    gc.set_threshold(OBJECTS)
    if sys.platform == "linux":
        processes.START = "fork"
    if not {"-h", "--help", "--version"} & set(sys.argv):
        _ask_for_room()
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


def _ask_for_room() -> None:
    """End where the address space is too small for the libraries."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE << 20:
        sys.stderr.write(
            f"boostfeat: expected an address space of {ADDRESS_SPACE} MB or more to load the libraries, "
            f"found {limit >> 20} MB; raise the limit (ulimit -v)\n"
        )
        sys.exit(1)


# With so large a first frame (in words) Python has all frames of a command in one piece of memory. Else a call in a loop that
# begins a new piece (16 KB) asks the system for it and gives it back each time: 14,000 times while the modules of induce are
# imported, 0.18 of 0.83 s
main.__code__ = main.__code__.replace(co_stacksize=1 << 15)

if __name__ == "__main__":
    main()

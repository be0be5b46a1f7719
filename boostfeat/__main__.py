"""``python -m boostfeat`` is ``boostfeat``."""

import signal


def main() -> None:
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are imported: no traceback
    from .cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()


if __name__ == "__main__":
    main()

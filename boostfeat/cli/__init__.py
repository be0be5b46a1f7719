"""The command line. Heavy imports stay inside the commands: ``boostfeat --help`` answers at once."""

from __future__ import annotations

import errno
import signal
import sys
from types import FrameType
from typing import Any

import typer

from ..errors import InputError
from . import compare, decode, demo, export, featurize, learn, lists, loop, report, rescore, tune

app = typer.Typer(
    name="boostfeat",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Rerank n-best lists with gradient-boosted local features, beside the classic tuners.",
)
for module in (lists, featurize, tune, learn, decode, loop, compare, export, rescore, report, demo):
    module.register(app)

# typer has the class of all usage errors (unknown option, missing argument, bad value) only as this one's base
_UsageError: Any = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """The program: a command, then exit 0, or 2 with one line on bad input or usage."""
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody reads any more (| head): end quietly, as other tools do
    sys.exit(run())


def run() -> int:
    """Run the command of sys.argv and return its exit code."""
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except _UsageError as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "boostfeat"
        return _fail(f"{command}: {error.format_message().rstrip('.')}; see '{command} --help'".replace("\n", " "))
    except InputError as error:
        return _fail(f"boostfeat: {error}")
    except (KeyboardInterrupt, typer.Abort):
        return _fail("boostfeat: interrupted", 130)
    except MemoryError:
        return _fail("boostfeat: not enough memory for this job; use fewer hypotheses (import --size N) or features", 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO):
            raise
        return _fail(f"boostfeat: cannot write: {error.strerror}; free some space or choose another output")


def _fail(line: str, code: int = 2) -> int:
    sys.stderr.write(line + "\n")
    return code


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # unwinds, so that temporary files go

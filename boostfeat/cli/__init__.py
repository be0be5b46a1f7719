"""The command line. Heavy imports stay inside the commands: ``boostfeat --help`` answers at once."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from ..core.errors import CANNOT_WRITE, NO_MEMORY, NO_MEMORY_TO_LOAD, InputError, is_out_of_memory, plain
from ..core.options import OptionError
from .plain_values import take_plain_values

COMMANDS = {  # in the order of the help; each with its module, which is imported and made flags of when it is called
    **dict.fromkeys(("import", "info", "convert", "rerank", "score"), "lists"),
    "join": "join",
    **dict.fromkeys(("featurize", "templates"), "featurize"),
    "tune": "tune",
    "induce": "induce",
    **dict.fromkeys(("augment", "show"), "models"),
    **{
        name: name
        for name in ("explain", "decode", "loop", "compare", "replicate", "export", "rescore", "report", "demo", "doctor")
    },
}


class Ended(BaseException):  # not an Exception: nothing on the way up may take it for an error
    """A command that did not come to its end: interrupted, or nobody reads its output any more."""

    def __init__(self, line: str, code: int) -> None:
        self.line, self.code = line, code
        super().__init__(line, code)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: all that happens on Ctrl-C, but the exit code."""


class _Commands(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return take_plain_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Typer has ends of its own for these, without a line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Ended(*_interruption(error)) from None
        except BrokenPipeError:
            raise Ended("", 128 + signal.SIGPIPE) from None
        except Exception:
            if _signals:  # an import or a kernel that was interrupted may raise something else
                raise Ended(*_interruption(KeyboardInterrupt())) from None
            raise


def make_app(name: str | None = None) -> typer.Typer:
    """The program, with this command or with all of them."""
    app = typer.Typer(
        name="boostfeat",
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Rerank n-best lists with gradient-boosted local features, beside the classic tuners.",
    )
    app.callback(invoke_without_command=True)(_version)
    for module in dict.fromkeys(COMMANDS.values() if name is None else [COMMANDS[name]]):
        importlib.import_module(f".{module}", __name__).register(app)
    if name is not None:
        app.registered_commands = [command for command in app.registered_commands if _name(command) == name]
    return app


def _name(command: Any) -> str:
    return command.name or command.callback.__name__


def _version(context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        from .. import __version__

        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:  # 'boostfeat --'
        print(context.get_help())


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(name)


# typer has the class of all usage errors (unknown option, missing argument, bad value) only as this one's base
_UsageError: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """The program: a command, then exit 0, or 2 with one line on bad input or usage; 128 + n where signal n ends it."""
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells' background jobs have it
            signal.signal(number, _stop)
    if sys.stdout is None:
        os.write(2, b"boostfeat: standard output: expected an open file, found it closed; redirect it to /dev/null\n")
        os._exit(2)
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stderr = sys.stderr or open(os.devnull, "w")
    code = run()
    for number in HANDLED:  # the end has begun
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        _let_go(stream)
    if code == 128 + signal.SIGPIPE:  # end quietly, as other tools do
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    gc.freeze()  # looking for circles at the end takes longer than many a command
    sys.exit(code)


def run() -> int:
    """Run the command of sys.argv and return its exit code."""
    try:
        words = sys.argv[1:] or ["--help"]
        alone = words[0] in COMMANDS and words[0] != "demo"  # which runs the others
        result = make_app(words[0] if alone else None)(words, standalone_mode=False)
        sys.stdout.flush()
        if result == 128 + signal.SIGINT and _signals:  # while typer was at its own work, and without a line
            return _fail(*_interruption(KeyboardInterrupt()))
        return result if isinstance(result, int) else 0
    except _UsageError as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "boostfeat"
        flag = getattr(error, "option_name", "")
        from ..boosting.options import GONE

        if flag.strip("-").replace("-", "_").removeprefix("no_") in GONE:
            return _fail(f"{command}: {flag}: expected none, found one of release 0.1 that did not help; leave it out")
        return _fail(f"{command}: {error.format_message().rstrip('.')}; see '{command} --help'".replace("\n", " "))
    except OptionError as error:
        return _fail(f"boostfeat: --{error.option.name.replace('_', '-')}: {error.problem}")
    except InputError as error:
        return _fail(f"boostfeat: {error}")
    except Ended as end:
        return _fail(end.line, end.code)
    except (KeyboardInterrupt, typer.Abort) as error:  # before or after the command's own work
        return _fail(*_interruption(error))
    except MemoryError:
        return _fail(NO_MEMORY, 1)
    except ImportError as error:
        if not is_out_of_memory(error):
            raise
        return _fail(NO_MEMORY_TO_LOAD, 1)
    except OSError as error:
        if is_out_of_memory(error):
            return _fail(NO_MEMORY, 1)
        if error.errno == errno.EPIPE:
            return 128 + signal.SIGPIPE
        if error.errno not in CANNOT_WRITE:
            raise
        return _fail(f"boostfeat: cannot write: {os.strerror(error.errno)}; free some space or choose another output")


def _fail(line: str, code: int = 2) -> int:
    if line:
        sys.stderr.write(plain(line) + "\n")
    return code


HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_signals: list[int] = []  # that have come


def _stop(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated  # unwinds, so that temporary files and children go


def _interruption(error: BaseException) -> tuple[str, int]:
    """(line, exit code) of an interruption; a command that keeps something has put what into the exception."""
    kept = str(error) or "what was not finished is not kept; the same command starts anew"
    number = _signals[0] if _signals else signal.SIGINT
    return f"boostfeat: interrupted: {kept}", 128 + number


def _let_go(stream: TextIO) -> None:
    """Write what is left; where that fails (it has been said), let Python's own try at the end of all go nowhere."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

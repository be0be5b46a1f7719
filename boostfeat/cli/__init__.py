"""The command line. A command is imported when it is called: ``boostfeat --help`` answers at once."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import signal
import sys
from difflib import get_close_matches
from types import FrameType
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from .. import __version__
from ..core.errors import CANNOT_WRITE, NO_MEMORY, NO_MEMORY_TO_LOAD, InputError, is_out_of_memory, plain
from ..core.options import OptionError

COMMANDS: dict[str, tuple[str, str]] = {  # name: module:function, which is imported when it is called, and a line of the help
    "import": ("list_commands:import_", "Read n-best lists or search graphs of any decoder into a store"),
    "info": ("list_commands:info", "Show what a list holds: sizes, features, BLEU of its hypotheses"),
    "convert": ("list_commands:convert", "Write a store as an n-best list in another format"),
    "rerank": ("rerank_commands:rerank", "Sort each list by a model's score, or the decoder's own"),
    "score": ("rerank_commands:score", "Score the reranked 1-best, with 95% bootstrap intervals"),
    "join": ("list_commands:join", "Add other models' scores to a list"),
    "featurize": ("feature_commands:featurize", "Add features computed from what the list carries"),
    "templates": ("feature_commands:templates", "List the feature templates and what decoders need for them"),
    "tune": ("learning_commands:tune", "Tune linear weights with a classic method"),
    "induce": ("learning_commands:induce", "Learn linear weights, then tree features by gradient boosting"),
    "augment": ("model_commands:augment", "Write a list with a model's trees as named features"),
    "show": ("model_commands:show", "Print a model: features, trees as rules, what its parts gain"),
    "explain": ("rerank_commands:explain", "Explain why a model chose a hypothesis"),
    "decode": ("search_commands:decode", "Translate with phrase-based beam search"),
    "loop": ("loop_command:loop", "Learn weights, decode with them, add the lists, repeat"),
    "compare": ("compare_commands:compare", "Train systems and compare them, with significance tests"),
    "replicate": ("compare_commands:replicate", "Run the experiment of a paper on your lists"),
    "export": ("model_commands:export", "Write a model for other programs, and check its scores there"),
    "rescore": ("search_commands:rescore", "Find the best paths of whole search graphs under a model"),
    "report": ("compare_commands:report", "Write a comparison or a loop as one HTML page"),
    "demo": ("installation_commands:demo", "Run the whole job on the lists in data/, in about a minute"),
    "doctor": ("installation_commands:doctor", "Show versions and threads, and test that learning works"),
}
HINTS = {  # words that people try, and the commands that do it
    **dict.fromkeys(("train", "fit", "learn"), "induce or tune"),
    **dict.fromkeys(("plot", "draw", "visualize"), "report"),
    **dict.fromkeys(("predict", "apply"), "rerank"),
    **dict.fromkeys(("evaluate", "eval"), "score"),
}


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        if cmd_name in COMMANDS:
            return command(cmd_name)
        if meant := HINTS.get(cmd_name) or " or ".join(get_close_matches(cmd_name, COMMANDS, cutoff=0.7)):
            raise InputError(f"there is no command {cmd_name!r}; did you mean {meant}? See 'boostfeat --help'")
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run a command; return an error that typer would tell in its own way, for ``run`` to tell."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            return error


@functools.cache
def command(name: str) -> Any:
    """Return a command as typer has it."""
    module, function = COMMANDS[name][0].split(":")
    flags = importlib.import_module(".flags", __name__)
    return flags.command_of(name, getattr(importlib.import_module(f".{module}", __name__), function))


app = typer.Typer(
    name="boostfeat",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Rerank n-best lists with gradient-boosted local features, beside the classic tuners.",
)


@app.callback(invoke_without_command=True)
def _version(context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:  # 'boostfeat --'
        print(context.get_help())


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


def call(words: list[str]) -> int:
    """Run a command inside this process; return its exit code where it has one of its own."""
    result = app(words, prog_name="boostfeat", standalone_mode=False)
    if isinstance(result, BaseException):
        raise result
    sys.stdout.flush()
    if _signals:
        raise KeyboardInterrupt  # while typer was at its own work
    return result if isinstance(result, int) else 0


def run() -> int:
    """Run the command of sys.argv and return its exit code."""
    try:
        return call(sys.argv[1:] or ["--help"])
    except BaseException as error:
        told = _end_of(error)
        if told is None:
            raise
        line, code = told
        sys.stderr.write(plain(line) + "\n" if line else "")
        return code


def _end_of(error: BaseException) -> tuple[str, int] | None:
    """Return what is said of an error, and the exit code; None of one that nobody expects."""
    if _signals or isinstance(error, KeyboardInterrupt | typer.Abort):  # what was interrupted may raise anything
        kept = str(error) if isinstance(error, KeyboardInterrupt) else ""  # where something is, its command has said what
        kept = kept or "what was not finished is not kept; the same command starts anew"
        return f"boostfeat: interrupted: {kept}", 128 + (_signals[0] if _signals else signal.SIGINT)
    if isinstance(error, _UsageError):
        return _usage_line(error), 2
    if isinstance(error, OptionError):
        return f"boostfeat: {error.option.typed_name}: {error.problem}", 2
    if isinstance(error, InputError):
        return f"boostfeat: {error}", 2
    if isinstance(error, MemoryError | ImportError | OSError) and is_out_of_memory(error):
        return NO_MEMORY_TO_LOAD if isinstance(error, ImportError) else NO_MEMORY, 1
    if isinstance(error, BrokenPipeError):
        return "", 128 + signal.SIGPIPE
    if isinstance(error, OSError) and error.errno in CANNOT_WRITE:
        return f"boostfeat: cannot write: {os.strerror(error.errno)}; free some space or choose another output", 2
    return None


def _usage_line(error: Any) -> str:
    """Return what is wrong with the words of a command; a setting that is given as a flag is told how to give it."""
    path = error.ctx.command_path if getattr(error, "ctx", None) else "boostfeat"
    flag = getattr(error, "option_name", "")
    if flag.strip("-").replace("-", "_") in getattr(getattr(error.ctx, "command", None), "setting_names", ()):
        return f"{path}: {flag} is a setting: give --set {flag.strip('-')}=VALUE; see '{path} --help-all'"
    return f"{path}: {error.format_message().rstrip('.')}; see '{path} --help'".replace("\n", " ")


HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_signals: list[int] = []  # that have come


def _stop(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    raise KeyboardInterrupt  # unwinds, so that temporary files and children go


def _let_go(stream: TextIO) -> None:
    """Write what is left; where that fails (it has been said), let Python's own try at the end of all go nowhere."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""A Python module that scores and chooses as the library does and needs nothing else: the sources of ``rerank.plain`` and of the
templates' own functions, and the model as JSON.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, clip, counted
from ..core.files import open_output, read_bytes
from ..features import FeaturePlan, Template
from ..features.registry import GIVEN, own_options
from ..model.decision import ways_to_decide
from ..model.model import Model
from ..rerank.candidate_lists import lists_of_candidates
from ..rerank.plain import PlainModel, PlainTemplate
from ..rerank.reranker import needed_features, plain_data
from .source_text import SourceText
from .target import Check, Context, Exporter, filled, whole_model
from .verify import checked_choices


def write(model: Model, out: Path, context: Context) -> list[Path]:
    with open_output(out) as stream:
        stream.write(module_text(model, context).encode())
    return [out]


def used_plan(model: Model, plan: FeaturePlan | None, registry: Mapping[str, Template]) -> FeaturePlan | None:
    """Return the part of a plan whose features a model uses and that needs no file of a user's."""
    if plan is None:
        return None
    used = {name for name, weight in model.weights.items() if weight}.union(*(tree.features() for tree in model.trees))
    used |= {factor for pair in plan.products or () for factor in pair}
    for entry in plan.entries:
        if entry.name not in registry:
            raise InputError(f"template {entry.name!r} of the model: it is not known; give its --plugin FILE.py")
    kept = (e for e in plan.entries if GIVEN.keys().isdisjoint(registry[e.name].reads))
    return replace(plan, entries=tuple(e for e in kept if not used.isdisjoint(e.features or ())))


def module_text(model: Model, context: Context) -> str:
    """Return the module's source."""
    plan = used_plan(model, context.plan, context.registry)
    source, calls, options = SourceText(), [], {}
    source.add(PlainModel, PlainTemplate)
    for entry in plan.entries if plan else ():
        template = context.registry[entry.name]
        call = source.add_function(template.compute, template.name)
        if taken := own_options(template.compute, entry.options):
            options[entry.name] = taken
            given = f"OPTIONS[{entry.name!r}]"
            source.add_name("partial", "from functools import partial")
            ready = f"{source.add_function(template.ready, template.name)}(**{given})" if template.ready else given
            call = f"partial({call}, **{ready})"
        calls.append(
            f"    PlainTemplate({entry.name!r}, {call}, {template.arguments!r}, {template.reads!r}, {entry.hash_bits}),\n"
        )
    data = plain_data(replace(model, weights={name: w for name, w in model.weights.items() if w}), plan)
    data["signature"] = model.signature
    source.add_name("json", "import json")
    parts = {
        "SIZE": "@SIZE@",
        "ABOUT": described(model, plan, data),
        "SOURCE": source.text,
        "DATA": _json(data),
        "OPTIONS": _json(options),
        "TEMPLATES": "".join(calls),
    }
    text = filled("module.py.in", parts)
    return text.replace("@SIZE@", f"{len(text.encode()) + 9:>9,} bytes", 1)


def described(model: Model, plan: FeaturePlan | None, data: Mapping[str, Any]) -> str:
    """Say what a module was made from."""
    names = [entry.name for entry in plan.entries] if plan else []
    lines = [
        model.signature,
        f"templates: {' '.join(names) or 'none'}",
        f"features of a candidate or its units: {ascii(data['inputs'])[1:-1] or 'none'}",
        f"decision: {ways_to_decide(model.config) or 'the highest score'}",
    ]
    return "\n".join(f"# {line}" for line in lines)


def _json(value: Any) -> str:
    """Return JSON that a raw string of Python can hold."""
    return json.dumps(value, indent=0).replace("'", "\\u0027")


def verify(model: Model, written: list[Path], context: Context) -> Check:
    """Score and choose, list after list, in a process that sees neither this library nor any other package."""
    plan = used_plan(model, context.plan, context.registry)
    made = plan.features if plan else set()
    answers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, errors = Path(folder) / "model.py", Path(folder) / "errors"
        path.write_bytes(read_bytes(written[0]))
        command = [sys.executable, "-I", "-S", "-B", "-c", filled("run_module.py.in", {}), str(path)]
        with (
            open(errors, "wb") as stderr,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                for each in lists_of_candidates(context.rows, made, {*plain_data(model, plan)["inputs"]}):
                    process.stdin.write(json.dumps(each) + "\n")
                    process.stdin.flush()
                    if not (line := process.stdout.readline()):
                        break
                    answers.append(json.loads(line))
                    context.on_progress(len(answers), len(context.rows), "verifying")
                process.stdin.close()
        if process.returncode:
            said = clip(errors.read_text()[-200:], 200)
            raise InputError(f"--to python: expected a module that runs, found: {said}; report this as a bug")
    scores = np.array([score for answer in answers for score in answer["scores"]])
    return checked_choices(model, context.rows, scores, [answer["choice"] for answer in answers])


def carries(model: Model, context: Context) -> str:
    plan = used_plan(model, context.plan, context.registry)
    needed = needed_features(model, plan.features if plan else set())
    return f"{whole_model(model, plan)}; candidates bring {counted(len(needed), 'feature')}"


EXPORTER = Exporter(write, verify, carries, uses=("plugin",), whole=True)

#!/usr/bin/env bash
# The suite under each Python that is there, in a fresh virtual environment of its own, from wheels only: nothing is compiled.
# Prints a line for each; ends with an error where a suite fails.
#
#   tests/versions.sh                                         # python3.11 to python3.14 on the PATH
#   PYTHONS=/opt/python/bin/python3 tests/versions.sh         # another one
#   tests/versions.sh -m quick                                # arguments of pytest
#
# Packages of the test extra that have no wheel for a Python are named; tests that need them are skipped or fail, as without them.
set -uo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

wanted() { # what the extra "test" asks for, the extras that it names included
    "$1" - <<'PROGRAM'
import re, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
todo, seen = ["test"], []
while todo:
    for line in extras[todo.pop()]:
        own = re.fullmatch(r"boostfeat\[(.*)\]", line)
        todo, seen = ([*todo, *own[1].split(",")], seen) if own else (todo, [*seen, line])
print(*seen, sep="\n")
PROGRAM
}

for python in ${PYTHONS:-python3.11 python3.12 python3.13 python3.14}; do
    if ! command -v "$python" > /dev/null; then
        echo "$python: not here"
        continue
    fi
    env=$work/$(basename "$python") version=$("$python" -V 2>&1)
    "$python" -m venv "$env" || { echo "$version: expected a virtual environment, found none"; failed=1; continue; }
    install() { "$env/bin/python" -m pip install -q --disable-pip-version-check --only-binary=:all: "$@" > "$env/pip.log" 2>&1; }
    if ! install -e .; then
        echo "$version: not all it needs has wheels: $(grep -m1 ERROR "$env/pip.log")"
        continue
    fi
    missing=()
    if ! install -e '.[test]'; then
        while read -r package; do install "$package" || missing+=("$package"); done < <(wanted "$env/bin/python")
    fi
    "$env/bin/python" -m pytest -p no:cacheprovider -n "${JOBS:-2}" "$@" > "$env/pytest.log" 2>&1 || { failed=1; grep -E "^(FAILED|ERROR|E  )" "$env/pytest.log"; }
    echo "$version: $(tail -n 1 "$env/pytest.log")${missing:+; no wheel of ${missing[*]}}"
done
exit $failed

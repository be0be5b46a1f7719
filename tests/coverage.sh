#!/usr/bin/env bash
# Line and branch coverage of the package (settings: [tool.coverage] in pyproject.toml).
#
#   pip install -e '.[test,mutation]' && tests/coverage.sh
#
# Twice: the whole suite as it is, whose compiled kernels coverage cannot see into, and then the tests of kernels without numba.
# Of the second run only the lines count: a test that takes over 30 s of processor time is stopped, and a failure is no matter.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PYTHONPATH=$PWD/tests/mutation${PYTHONPATH:+:$PYTHONPATH} COVERAGE_FILE=$out/.coverage
kernels=(adagrad arow bleu consensus decoder graphs grow kbmira losses mbr mert metrics mira moses_enriched moses_osgx nbest
         online oracle_path pairs rampion refit rm training tree tuner_base export_moses formats templates rescore)

"$python" -m coverage run -m pytest -p no:cacheprovider
for name in "${kernels[@]}"; do
    NUMBA_DISABLE_JIT=1 "$python" -m coverage run -m pytest -p no:cacheprovider -W 'ignore:overflow' -p cpu_limit "tests/test_$name.py" \
        || echo "tests/test_$name.py: not all tests pass in time without numba" >&2
done
"$python" -m coverage combine --quiet "$out"
"$python" -m coverage report --skip-covered "$@"

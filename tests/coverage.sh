#!/usr/bin/env bash
# Line and branch coverage of the package (settings: [tool.coverage] in pyproject.toml); ends with an error below 97 %.
#
#   pip install -e '.[test,mutation]' && tests/coverage.sh
#   JOBS=4 tests/coverage.sh                               # so many processes, 1 unless told
#   tests/coverage.sh --show-missing --skip-covered        # options of coverage report
#
# Two runs: the suite as it is, whose compiled kernels coverage cannot see into, less the tests that only repeat what others run;
# then the tests of kernels without numba. Of the second only the lines count: a test that takes over 8 s of processor time there
# is skipped, and a failure is no matter (numbers wrap around in silence in numba and warn in numpy).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PYTHONPATH=$PWD:$PWD/tests${PYTHONPATH:+:$PYTHONPATH} COVERAGE_FILE=$out/coverage
kernels=(export/test_export_moses.py features formats/test_moses_enriched.py lists losses metrics rerank search/decoder
         search/graphs search/loop/test_online.py trees tuners)

# Files go to processes of coverage's own, eight at a time: pytest-xdist's workers may be killed before they have written what they saw.
run() { xargs -P "${JOBS:-1}" -n 8 "$python" -m coverage run -m pytest -q -p no:cacheprovider -n 0 "$@"; }
find tests -name 'test_*.py' ! -path tests/qualities/test_determinism.py | sort | run \
    || echo "the suite has failures (see above): coverage may be better without them" >&2
find "${kernels[@]/#/tests/}" -name 'test_*.py' | sort | NUMBA_DISABLE_JIT=1 CPU_LIMIT=8 run -p cpu_limit -W 'ignore:overflow' --tb=no \
    || echo "without numba not all tests pass: no matter" >&2
"$python" -m coverage combine --quiet "$out"
"$python" -m coverage report --fail-under=97 "${@:---skip-covered}"

#!/usr/bin/env bash
# Build the wheel and the sdist, and try them where nothing else of this folder can be imported:
#   - the wheel installs into a fresh environment of each Python below and the README's first release runs from it;
#   - the tests of the sdist are all found, and those of the accountant pass on its own sources.
# PYTHONS="python3.11 python3.13" tools/package.sh tries those; otherwise every Python from 3.11 to 3.14 that is on the path.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
dev=$root/${VENV:-.venv}/bin/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

"$dev" -m build --outdir "$place/dist" >"$place/build.log" 2>&1 || { cat "$place/build.log" >&2; exit 1; }
wheel=("$place"/dist/*.whl)
sdist=("$place"/dist/*.tar.gz)
echo "built $(basename "${wheel[0]}"), $(basename "${sdist[0]}")"

"$dev" - "$place/first.py" <<'PYTHON'
import re
import sys

page = open("README.md", encoding="utf-8").read()
code = re.search(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
open(sys.argv[1], "w", encoding="utf-8").write(code[1])
PYTHON

tried=0
for python in ${PYTHONS:-python3.11 python3.12 python3.13 python3.14}; do
  if ! "$python" -c "" 2>"$place/no"; then
    [ -n "${PYTHONS:-}" ] || continue
    cat "$place/no" >&2
    exit 1
  fi
  clean=$place/clean-$tried
  mkdir "$clean"
  "$python" -m venv "$clean/venv"
  "$clean/venv/bin/python" -m pip install --quiet "${wheel[0]}"
  "$clean/venv/bin/python" -m pip check >/dev/null
  (cd "$clean" && venv/bin/neartwin --version && venv/bin/python -I -W error "$place/first.py" >/dev/null)
  echo "$("$python" --version): the first release of the README runs from the wheel"
  tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { echo "no Python from 3.11 to 3.14 to install the wheel with" >&2; exit 1; }

tar -xzf "${sdist[0]}" -C "$place"
cd "$place"/neartwin-*/
export PYTHONPATH=$PWD/src
"$dev" -m pytest -q --collect-only -p no:cacheprovider tests README.md >"$place/found" 2>&1 || { tail -30 "$place/found" >&2; exit 1; }
"$dev" -m pytest -q -n 0 -p no:cacheprovider tests/accounting >"$place/passed" 2>&1 || { tail -60 "$place/passed" >&2; exit 1; }
echo "the sdist: $(awk -F': ' '/^tests.*: [0-9]+$/ { n += $2 } END { print n }' "$place/found") tests found, those of the accountant pass"

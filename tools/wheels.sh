#!/usr/bin/env bash
# Whether every dependency, those of the extras too, has a wheel for a Python that need not be installed here.
#   tools/wheels.sh 3.14
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?which Python, such as 3.14}
extras=certificates,interop,pandas,plots,polars,postgres,web
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$extras" >"$folder/wanted.txt" <<'PYTHON'
import sys
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
groups = [project["dependencies"], *(project["optional-dependencies"][name] for name in sys.argv[1].split(","))]
print(*(line for group in groups for line in group if not line.startswith(project["name"])), sep="\n")
PYTHON
python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: \
  --implementation cp --python-version "$python" --abi "cp${python/./}" --abi abi3 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  --dest "$folder/wheels" --requirement "$folder/wanted.txt"
echo "Python $python: $(ls "$folder/wheels" | wc -l) wheels"

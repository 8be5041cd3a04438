#!/usr/bin/env bash
# The peers of bench_peers.py, each in an environment of its own, for they want different versions of the same things:
#   bench/peers.sh FOLDER [NAME ...]
# A peer that cannot be installed is named with the reason; the rest stay. Tumult wants Java 17 besides.
set -uo pipefail
folder=$1
shift
mkdir -p "$folder"
declare -A wanted=(
  [opendp]="opendp[polars]==0.16.0 pyarrow"
  [pipelinedp]="pipeline-dp==0.3.1 pyarrow"
  [smartnoise]="smartnoise-sql==1.0.10 pyarrow"
  [tumult]="tmlt-analytics==0.21.0"
  [diffprivlib]="diffprivlib==0.6.6 scikit-learn<1.7 pandas pyarrow" # a newer scikit-learn cannot import it
  [pydp]="python-dp==1.1.5 pandas pyarrow"
  [random_allocation]="random-allocation==1.0.5 pandas" # for bench_training.py; it wants NumPy below 2.2
)
[ $# -gt 0 ] || set -- "${!wanted[@]}"
for name in "$@"; do
  [ -n "${wanted[$name]:-}" ] || { echo "$name: no such peer; there are ${!wanted[*]}" && continue; }
  [ -d "$folder/$name" ] || python3 -m venv "$folder/$name"
  # word splitting is meant: several requirements
  # shellcheck disable=SC2086
  if "$folder/$name/bin/pip" install -q ${wanted[$name]} 2> "$folder/$name.log"; then echo "$name: installed"; else echo "$name: $(tail -1 "$folder/$name.log")"; fi
done

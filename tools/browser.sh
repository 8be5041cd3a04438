#!/usr/bin/env bash
# What the tests of the pages and charts need beside Python packages: Debian's Chromium and Cairo, and axe-core from npm
# in build/axe. As root on Debian `make test` installs chromium, libcairo2 and npm where they are missing, and says so first.
# As another user it installs no package of the system: these tests are skipped, or on CI the run fails.
set -euo pipefail
cd "$(dirname "$0")/.."
axe=build/axe/node_modules/axe-core/axe.min.js

missing() {
  if [ -n "${CI:-}" ]; then
    echo "no $1 for the tests of the pages and charts, and no way to install it" >&2
    exit 1
  fi
  echo "no $1: tests of the pages or charts will be skipped (Debian: $2)" >&2
  exit 0
}

installed=""
debian() {  # package: install it where that can be done
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "no $1, which the tests of the pages or charts need: installing it with apt-get" >&2
  export DEBIAN_FRONTEND=noninteractive
  [ -n "$installed" ] || apt-get update -qq
  installed=yes
  apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

python3 -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library("cairo") is None)' || debian libcairo2 ||
  missing "Cairo" libcairo2
command -v chromium >/dev/null || debian chromium || missing "Chromium" chromium
if [ ! -s "$axe" ]; then
  command -v npm >/dev/null || debian npm || missing "npm" npm
  npm install --silent --no-audit --no-fund --no-save --prefix build/axe axe-core@4 || missing "axe-core" "npm install axe-core"
fi

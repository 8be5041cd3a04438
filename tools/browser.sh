#!/usr/bin/env bash
# What the tests of the pages need beside Python packages: Debian's Chromium, and axe-core from npm in build/axe.
# As root on Debian `make test` installs chromium and npm where they are missing, and says so first. As another user it
# installs no package of the system: the tests of the pages are skipped, or on CI the run fails.
set -euo pipefail
cd "$(dirname "$0")/.."
axe=build/axe/node_modules/axe-core/axe.min.js

missing() {
  if [ -n "${CI:-}" ]; then
    echo "no $1 for the tests of the pages, and no way to install it" >&2
    exit 1
  fi
  echo "no $1: the tests of the pages will be skipped (Debian: $2)" >&2
  exit 0
}

installed=""
debian() {  # package: install it where that can be done
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "no $1, which the tests of the pages need: installing it with apt-get" >&2
  export DEBIAN_FRONTEND=noninteractive
  [ -n "$installed" ] || apt-get update -qq
  installed=yes
  apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

command -v chromium >/dev/null || debian chromium || missing "Chromium" chromium
if [ ! -s "$axe" ]; then
  command -v npm >/dev/null || debian npm || missing "npm" npm
  npm install --silent --no-audit --no-fund --no-save --prefix build/axe axe-core@4 || missing "axe-core" "npm install axe-core"
fi

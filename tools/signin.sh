#!/usr/bin/env bash
# What the tests of signing in need beside Python packages: a certified server of OpenID Connect, oidc-provider from npm, in
# build/oidc. Without node and npm these tests are skipped, or on CI the run fails.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -s build/oidc/node_modules/oidc-provider/package.json ] && exit 0
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "no node and npm, which the tests of signing in need: they will be skipped (Debian: npm)" >&2
  [ -z "${CI:-}" ]
  exit
fi
npm install --silent --no-audit --no-fund --no-save --prefix build/oidc oidc-provider@9

#!/usr/bin/env bash
# What the tests of the engines need beside Python packages: a Java runtime for Spark. (PostgreSQL comes in a wheel.)
# As root on Debian `make test` installs openjdk where there is no Java, and says so first. As another user it installs
# nothing: the tests of Spark are skipped, or on CI the run fails.
set -euo pipefail
if command -v java >/dev/null || { [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; }; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "no Java runtime, which the tests of Spark need: installing openjdk-17-jre-headless with apt-get (put java on the path to avoid it)" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
    apt-get install -y -qq --no-install-recommends default-jre-headless
elif [ -n "${CI:-}" ]; then
  echo "no Java runtime for the tests of Spark, and no right to install one" >&2
  exit 1
else
  echo "no Java runtime: the tests of Spark will be skipped (Debian: openjdk-17-jre-headless)" >&2
fi

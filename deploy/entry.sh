#!/bin/sh
# Starts a service in a container or a unit. Its settings are variables; a password belongs in a file:
#   NEARTWIN_DATA         the directory of the service, by default /var/lib/neartwin
#   NEARTWIN_LEDGER       a postgresql:// URL; or NEARTWIN_LEDGER_FILE, a file that holds it
#   NEARTWIN_ANCHOR       where the newest head is kept too
#   NEARTWIN_PROXY        the address of the proxy whose X-Forwarded-For is believed
#   NEARTWIN_OIDC         a TOML file that names a server where people sign in
#   NEARTWIN_HOST, NEARTWIN_PORT, NEARTWIN_WORKERS, NEARTWIN_MEMORY, NEARTWIN_AUDIT_LOG
set -eu
umask 077
if [ -n "${NEARTWIN_LEDGER_FILE:-}" ]; then
    NEARTWIN_LEDGER=$(cat "$NEARTWIN_LEDGER_FILE")
    export NEARTWIN_LEDGER
fi
set -- serve --data "${NEARTWIN_DATA:-/var/lib/neartwin}" \
    --host "${NEARTWIN_HOST:-0.0.0.0}" --port "${NEARTWIN_PORT:-8417}" \
    --workers "${NEARTWIN_WORKERS:-2}" --memory "${NEARTWIN_MEMORY:-4}" \
    --audit-log "${NEARTWIN_AUDIT_LOG:--}" --https "$@"
if [ -n "${NEARTWIN_PROXY:-}" ]; then
    set -- "$@" --proxy "$NEARTWIN_PROXY"
fi
if [ -n "${NEARTWIN_OIDC:-}" ]; then
    set -- "$@" --oidc "$NEARTWIN_OIDC"
fi
exec neartwin "$@"

"""Alembic migrations of a ledger's tables, oldest first; none is ever changed."""

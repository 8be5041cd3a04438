"""Alembic migrations of a service's tables, oldest first; none is ever changed."""

"""Mechanisms that answer many linear queries by noise on a few."""

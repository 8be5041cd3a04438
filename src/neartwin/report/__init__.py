"""Releases for people: tables, plots, one self-contained HTML page, certificate. Sees releases and findings alone."""

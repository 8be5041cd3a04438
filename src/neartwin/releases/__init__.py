"""The one place where all meet: run a plan, and what comes out of it."""

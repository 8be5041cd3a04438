"""Mechanisms that run on the device of each person."""

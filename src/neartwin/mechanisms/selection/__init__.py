"""Mechanisms that choose: quantiles, top k, thresholds, sparse vector."""

"""From a question to a plan: limits, sensitivity, noise, price, expected error. Touches the schema only."""

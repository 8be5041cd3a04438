"""Tables: sources, column types, expressions, ranges, joins, and the grid that makes sums exact."""

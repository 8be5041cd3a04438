"""From the transform of a sum of losses to certified epsilon and delta: contour, lattice, closed form."""

"""How good a model is: scores computed outside of any federation, on predictions as NumPy arrays."""

"""Push: a model of a notebook, loaded on a running Triton, proved there, and undone."""

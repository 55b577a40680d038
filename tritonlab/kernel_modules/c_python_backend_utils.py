"""A process that is not a stub finds here what Triton compiles into its stub (rule 1.1.4)."""

from tritonlab.stub.c_python_backend_utils import *  # noqa: F403

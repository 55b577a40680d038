"""What Triton compiles into its stub, for a process that is not a stub (rule 1.1.4)."""

from tritonlab.stub.c_python_backend_utils import *  # noqa: F403

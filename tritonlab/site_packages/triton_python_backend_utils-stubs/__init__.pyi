# Types of triton_python_backend_utils for mypy, pyright and jedi, which find a directory of this name in site-packages
# (PEP 561). Nothing can import it: the module itself is found by tritonlab.kernel_modules.
from tritonlab.kernel_modules.triton_python_backend_utils import *

# Types of c_python_backend_utils, found as those of triton_python_backend_utils beside it.
from tritonlab.stub.c_python_backend_utils import *

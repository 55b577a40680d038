# Types of c_python_backend_utils, found like the ones of triton_python_backend_utils next to it.
from tritonlab.stub.c_python_backend_utils import *

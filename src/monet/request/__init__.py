"""What is asked for, once: the command line, spaces, results and the Python API derive from the fields of a request."""

from monet.request.request import Request

__all__ = ["Request"]

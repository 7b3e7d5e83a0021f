"""The PyTorch reader: a module goes through torch.export, and its ATen operators are written as monet's.

The library is an optional extra and is imported only when a module is read.
"""

from monet.frontends.torch.module import load_module, module_values
from monet.frontends.torch.python_file import load_python

__all__ = ["load_module", "load_python", "module_values"]

"""A self-contained HTML report of a result: one file, no network, our own script and style inside.

Every figure is two functions: ``info`` of its module here (plain data, tested in Python) and ``draw`` of the script
with the same name in ``assets`` (canvas or SVG).
"""

from monet.report.html.page import page, write_html

__all__ = ["page", "write_html"]

"""Mapper tests never touch the user's cache."""

import os

os.environ["MONET_CACHE"] = "off"

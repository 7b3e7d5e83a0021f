"""The experiments of the MONET paper, one module each, with its published figures beside ours."""

"""One module per command; only light imports at the top of each."""

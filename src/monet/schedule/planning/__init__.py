"""What a plan leaves open: fusion groups and their tiles, order, placement, the default plan."""

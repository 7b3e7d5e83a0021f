"""What the programs of a plan cost on their devices."""

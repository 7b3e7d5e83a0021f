"""From a forward graph to one training step."""

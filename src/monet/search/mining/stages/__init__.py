"""Mining for pipelines: designs for every stage, then one for all stages or one for each."""

"""What a finished run is used for: bundles are read, and nothing else of a run."""

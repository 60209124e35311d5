"""What becomes of a trained model: bundles, and the commands that read them and nothing else."""

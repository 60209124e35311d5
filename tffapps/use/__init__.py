"""What becomes of a trained model: bundles, and the commands that read them and nothing else."""

EXPLANATIONS = ("gradcam", "occlusion")  # of `predict --explain`

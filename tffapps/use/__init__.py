"""What is done with a trained model: heat maps and files for other programs."""

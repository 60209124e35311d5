"""What was released of whose data, and what that has cost in differential privacy. No TensorFlow, no rounds."""

"""What is computed: the round, the local training rules, the aggregation. One method, one file."""

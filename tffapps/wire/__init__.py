"""What a coordinator and its sites share: certificates, TLS, channels, messages, the names of jobs."""

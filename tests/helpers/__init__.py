"""What test modules share: small files in the layouts
of the real ones, servers, tiny models and workflows."""

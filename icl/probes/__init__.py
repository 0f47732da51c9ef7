"""What happens inside a model: measurements that leave it as it was."""

"""What Dragoman's kernel does in a second, beside its peers, on the same server in the same run."""

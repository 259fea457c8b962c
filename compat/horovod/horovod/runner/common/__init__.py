"""Parts of the launcher that other programs use."""

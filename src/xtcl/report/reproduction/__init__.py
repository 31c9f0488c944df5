"""Pages and pictures of the paper's experiments, drawn from the records of their runs."""

"""Where answers are kept: each output takes a micro-batch once, however often it is given."""

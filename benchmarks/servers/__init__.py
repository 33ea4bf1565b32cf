"""One module for each server: the shared task, a stream of numbers or a tool, as its library offers them."""

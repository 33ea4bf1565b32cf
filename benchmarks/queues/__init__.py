"""Queues that take part: each is a class that is opened with an address, and told to submit and to drain."""

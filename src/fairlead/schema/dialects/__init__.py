"""What providers of models take of JSON Schema: a document in few kinds of nodes, and in the words of each provider.

How requests and tools look to a provider is not known here.
"""

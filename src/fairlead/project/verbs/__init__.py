"""The developer's verbs at the command line, one file each. They read arguments and print; the rest is above."""

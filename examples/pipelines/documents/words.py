"""Counts the words of answers: one JSON value a line in, one out."""

import json
import sys

for line in sys.stdin:
    answer = json.loads(line)
    print(json.dumps({**answer, "words": len(answer["text"].split())}), flush=True)

"""The ways in. Each turns its caller's words into a call, and the envelope into those words; none decides."""

"""What is said: AHP's wire types, their codec and reducers, and the saved forms.

Rule of the room: imports msgspec and pure standard library only; no I/O, no clock, no randomness.
"""

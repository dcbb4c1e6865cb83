"""Where bytes move: terminals, their processes and the files they need.

The room's rule: one loop thread owns everything here; nothing blocks it, and nothing above knows an operating system's pty.
"""

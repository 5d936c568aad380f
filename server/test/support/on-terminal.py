"""Runs a command on a terminal of its own and ends with its exit code, so that tests can see what it says to a person."""

import os
import pty
import sys

status = pty.spawn(sys.argv[1:])
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)

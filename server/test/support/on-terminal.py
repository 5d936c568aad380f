"""Runs a command on a pseudo-terminal and exits with its exit code, so that tests can see its interactive output."""

import os
import pty
import sys

status = pty.spawn(sys.argv[1:])
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)

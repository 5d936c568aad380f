"""The cortex runtime: an HTTP/1.1 server that turns an app folder's `main.py` into endpoints.

Standard library only, Python 3.8 and newer. `boot.run` is the entry; the folder's README.md is the contract.
"""

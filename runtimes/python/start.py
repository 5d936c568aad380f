"""Starts the cortex runtime: `python <this folder>/start.py` with the app's folder as working directory.

Kept tiny, because a script's byte code is never cached; everything is in the package beside it. A spawned child of
`multiprocessing` runs this file again under another name, hence the guard.
"""

if __name__ == "__main__":
    import gc
    import os
    import sys

    gc.disable()  # Until the app is imported (see boot.py): what the runtime imports stays.
    here = os.path.dirname(os.path.abspath(__file__))
    # Not left to the interpreter: with PYTHONSAFEPATH the script's folder is not on the path.
    sys.path[:] = [here] + [entry for entry in sys.path if entry != here]
    from slipway_cortex.boot import run

    run(here)

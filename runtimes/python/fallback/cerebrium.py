"""Stands in for the `cerebrium` package where an app imports it and has not installed it.

The runtime puts this folder last on the path, so that any installed package or module of the app wins.
"""

import os

__all__ = ["get_secret"]


def get_secret(name):
    """The value of the secret `name`, which the platform hands over as an environment variable.

    Raises KeyError, saying which name is not set, when there is none.
    """
    try:
        return os.environ[name]
    except KeyError:
        raise KeyError(
            "the secret %r is not set: add it to the app or the project, then restart the app" % (name,)
        ) from None

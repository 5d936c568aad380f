"""An app with dependencies from the package index: they are installed once and shared by later builds."""

from slugify import slugify


def run(text: str):
    return {"slug": slugify(text)}

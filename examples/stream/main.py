"""A generator becomes server-sent events: the caller sees each part as soon as it is there."""

import time


def run(count: int = 5, pause_seconds: float = 0.2):
    for number in range(count):
        if number > 0:
            time.sleep(pause_seconds)
        yield f"Number {number}"


async def letters(text: str = "slipway"):
    for letter in text:
        yield {"letter": letter}

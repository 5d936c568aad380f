"""An async function that uses a secret of the project; calls wait side by side in one replica."""

import asyncio
import hashlib
import hmac
import os


async def sign(message: str, wait_seconds: float = 0.0):
    await asyncio.sleep(wait_seconds)
    key = os.environ.get("SIGNING_KEY")
    if key is None:
        return {"status_code": 422, "message": "The secret SIGNING_KEY is not set for this app."}
    signature = hmac.new(key.encode(), message.encode(), hashlib.sha256).hexdigest()
    return {"message": message, "signature": signature}

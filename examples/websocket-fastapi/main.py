"""A web server of one's own: plain routes, and a WebSocket that answers each message with its length."""

import os

from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect

app = FastAPI()


@app.get("/health")
def health():
    return {"ok": True}


@app.get("/items/{item_id}")
def item(item_id: int, request: Request):
    return {"item": item_id, "run_id": request.headers.get("x-request-id"), "build": os.environ.get("BUILD_ID")}


@app.websocket("/echo")
async def echo(socket: WebSocket):
    await socket.accept()
    try:
        while True:
            text = await socket.receive_text()
            await socket.send_json({"echo": text, "length": len(text)})
    except WebSocketDisconnect:
        pass

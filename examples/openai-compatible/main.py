"""Reached by OpenAI clients with the base URL …/openai-compatible/run: the path /chat/completions leads to run()."""

import json
import time


def run(messages: list, model: str = "echo", stream: bool = True, run_id: str = ""):
    words = messages[-1]["content"].split()
    for index, word in enumerate(words):
        yield json.dumps(
            {
                "id": run_id,
                "object": "chat.completion.chunk",
                "created": int(time.time()),
                "model": model,
                "choices": [
                    {
                        "index": 0,
                        "delta": {"role": "assistant", "content": word if index == 0 else f" {word}"},
                        "finish_reason": "stop" if index == len(words) - 1 else None,
                    }
                ],
            }
        )
    yield "[DONE]"

"""The framing of server-sent events, checked with a reader written by the standard's rules."""

import random
import unittest

import support  # noqa: F401  (puts the runtime on the path)
from slipway_cortex.event_stream import EventFramer, error_event
from slipway_cortex.json_value import Unserialisable


def read(data):
    """The events in `data`, as a client has them: [(event, data)]."""
    events, kind, lines = [], "message", []
    for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if lines:
                events.append((kind, "\n".join(lines)))
            kind, lines = "message", []
        elif not line.startswith(":"):
            field, _colon, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                lines.append(value)
            elif field == "event":
                kind = value
    return events


def frames(*items):
    framer = EventFramer()
    return b"".join(framer.frame(item) for item in items)


class FramingTest(unittest.TestCase):
    def test_wraps_text(self):
        self.assertEqual(frames("Number 0 "), b"data: Number 0 \n\n")
        self.assertEqual(frames("a\nb\r\nc\rd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n")
        self.assertEqual(frames(""), b"data: \n\n")
        self.assertEqual(frames("a\u2028b\x85c\x0bd"), "data: a\u2028b\x85c\x0bd\n\n".encode())

    def test_passes_events_through(self):
        for text in (
            "data: x\n\n",
            "event: a\ndata: x\n\n",
            "id: 5\n",
            "retry: 10\n\n",
            ": keep-alive\n\n",
            "data:[DONE]\r\n\r\n",
        ):
            self.assertEqual(frames(text), text.encode())

    def test_ends_events_that_lack_the_blank_line(self):
        self.assertEqual(
            read(frames("data: a", "data: b", "x")), [("message", "a"), ("message", "b"), ("message", "x")]
        )

    def test_keeps_colons_that_are_text(self):
        tokens = ["Here", " it is", ":", "\n\n", ":\n\n", ":)", ": ", "::", " end"]
        self.assertEqual("".join(data for _kind, data in read(frames(*tokens))), "".join(tokens))
        self.assertEqual(frames("data: a\n\n", ":\n\n"), b"data: a\n\n:\n\n")

    def test_writes_json_for_values_and_bytes_as_they_are(self):
        self.assertEqual(
            frames({"a": "\u00e4"}, [1], 2, None, True),
            'data: {"a":"\u00e4"}\n\ndata: [1]\n\ndata: 2\n\ndata: null\n\ndata: true\n\n'.encode(),
        )
        self.assertEqual(frames(b"\x00raw", bytearray(b"x"), memoryview(b"y"), b""), b"\x00rawxy")

    def test_says_what_cannot_be_written(self):
        with self.assertRaises(Unserialisable) as caught:
            frames({"a": object()})
        self.assertIn("chunk.a", str(caught.exception))

    def test_replaces_what_utf8_cannot_hold(self):
        self.assertEqual(frames("a\ud800"), b"data: a?\n\n")

    def test_every_text_reads_back(self):
        chance = random.Random(14)
        for _ in range(500):
            text = "".join(chance.choices("ab :\n\r d\u20ac", k=chance.randint(1, 12)))
            if text.startswith((":", "data:")) or not text.strip("\r\n"):
                continue
            self.assertEqual(
                read(frames(text)), [("message", text.replace("\r\n", "\n").replace("\r", "\n"))], ascii(text)
            )

    def test_errors_are_one_event(self):
        self.assertEqual(
            read(error_event({"run_id": "r", "message": "E: a\nb", "error": {"type": "E", "message": "a\nb"}})), [("error", '{"run_id":"r","error":{"type":"E","message":"a\\nb"}}')]
        )


if __name__ == "__main__":
    unittest.main()

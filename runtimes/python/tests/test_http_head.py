"""The request parser alone: what is understood, and what is refused because two parsers could differ on it."""

import random
import unittest

import support  # noqa: F401  (puts the runtime on the path)
from slipway_cortex.http_chunks import ChunkedBody
from slipway_cortex.http_head import HttpError, parse_head

GOOD = b"POST /run HTTP/1.1\r\nHost: a\r\nContent-Length: 2"


def status_of(head):
    """200, or the status with which a head is refused."""
    try:
        parse_head(head)
    except HttpError as error:
        return error.status
    return 200


class HeadTest(unittest.TestCase):
    def test_reads_what_a_call_needs(self):
        head = parse_head(GOOD + b"\r\nX-Request-Id: abc\r\nConnection: x, Close\r\nExpect: 100-Continue")
        self.assertEqual((head.method, head.path, head.length, head.chunked), ("POST", "/run", 2, False))
        self.assertEqual((head.request_id, head.keep_alive, head.expects_continue), (b"abc", False, True))

    def test_reads_targets(self):
        for target, path in (
            (b"/run?async=true", "/run"),
            (b"/a%2Fb%C3%A4", "/a/b\u00e4"),
            (b"http://host/run?x", "/run"),
            (b"http://host", "/"),
            (b"/%FF", "/\ufffd"),
        ):
            self.assertEqual(parse_head(b"POST %b HTTP/1.1\r\nHost: a" % target).path, path)

    def test_keeps_old_clients_connections_only_when_they_ask(self):
        self.assertFalse(parse_head(b"GET / HTTP/1.0").keep_alive)
        self.assertTrue(parse_head(b"GET / HTTP/1.0\r\nConnection: Keep-Alive").keep_alive)

    def test_refuses_hostile_heads(self):
        line = b"POST /run HTTP/1.1\r\nHost: a\r\n"
        for head, status in (
            (line + b"Content-Length: 2\r\nTransfer-Encoding: chunked", 400),
            (line + b"Content-Length: 2\r\nContent-Length: 2", 400),
            (line + b"Content-Length: 2, 2", 400),
            (line + b"Content-Length: +2", 400),
            (line + b"Content-Length: -2", 400),
            (line + b"Content-Length: 0x2", 400),
            (line + b"Content-Length: 2_0", 400),
            (line + b"Content-Length: ", 400),
            (line + b"Content-Length: 2 2", 400),
            (line + b"Content-Length: \xb2", 400),
            (line + b"Content-Length: 9999999999999999999", 400),
            (line + b"Content-Length : 2", 400),
            (line + b" Content-Length: 2", 400),
            (line + b"X: a\r\n b", 400),
            (line + b"X: a\r\n\tb", 400),
            (line + b"X: a\nContent-Length: 2", 400),
            (line + b"X: a\rContent-Length: 2", 400),
            (line + b"X: a\0b", 400),
            (line + b"X\0: a", 400),
            (line + b"X\xe4: a", 400),
            (line + b": a", 400),
            (line + b"X", 400),
            (line + b"Host: b", 400),
            (line + b"Transfer-Encoding: identity", 400),
            (line + b"Transfer-Encoding: gzip, chunked", 501),
            (line + b"Transfer-Encoding: chunked, chunked", 501),
            (line + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
            (line + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
            (line + b"Transfer-Encoding: \x0bchunked", 400),
            (line + b"Transfer-Encoding: xchunked", 501),
            (line + b"Transfer-Encoding: chunked;x", 400),
            (line + b"Expect: the best", 417),
            (line + b"X: y\r\n" * 300 + b"Z: z", 431),
            (b"POST /run HTTP/1.0\r\nTransfer-Encoding: chunked", 400),
            (b"POST /run HTTP/1.1", 400),
            (b"POST  /run HTTP/1.1\r\nHost: a", 400),
            (b" POST /run HTTP/1.1\r\nHost: a", 400),
            (b"POST /run HTTP/1.1 \r\nHost: a", 400),
            (b"POST\t/run HTTP/1.1\r\nHost: a", 400),
            (b"POST /r\xc3\xbcn HTTP/1.1\r\nHost: a", 400),
            (b"POST /%2 HTTP/1.1\r\nHost: a", 400),
            (b"POST /%+1 HTTP/1.1\r\nHost: a", 400),
            (b"POST run HTTP/1.1\r\nHost: a", 400),
            (b"POST /run\r\nHost: a", 400),
            (b"POST /run http/1.1\r\nHost: a", 400),
            (b"POST /run HTTP/1.2\r\nHost: a", 505),
            (b"PRI * HTTP/2.0", 505),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a", 400),
            (b"", 400),
        ):
            self.assertEqual(status_of(head), status, head)

    def test_never_fails_in_another_way_on_damaged_heads(self):
        chance = random.Random(11)
        whole = GOOD + b"\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nX-Request-Id: 1"
        for _ in range(3000):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                where = chance.randrange(len(data))
                data[where : where + chance.randint(0, 3)] = bytes(chance.choices(range(256), k=chance.randint(0, 3)))
            self.assertIn(status_of(bytes(data)), (200, 400, 417, 431, 501, 505), bytes(data))


def decode(data, most=1 << 20, pieces=None):
    """The body that a chunked coding decodes to and what follows it; None when it is not complete."""
    decoder = ChunkedBody(most)
    buffer = bytearray()
    for piece in pieces or [data]:
        buffer += piece
        if decoder.feed(buffer):
            return bytes(decoder.body), bytes(buffer)
    return None


class ChunksTest(unittest.TestCase):
    def test_decodes_in_whatever_pieces_it_comes(self):
        chance = random.Random(12)
        for _ in range(300):
            body = bytes(chance.choices(range(256), k=chance.randint(0, 200)))
            coded, left = b"", body
            while left:
                take = chance.randint(1, len(left))
                extension = chance.choice([b"", b";a", b";a=b", b';a="b c"'])
                coded += (
                    (b"%X" if chance.random() < 0.5 else b"0%x") % take + extension + b"\r\n" + left[:take] + b"\r\n"
                )
                left = left[take:]
            coded += b"0\r\n" + chance.choice([b"", b"X: y\r\n"]) + b"\r\n" + b"next"
            cuts = sorted(chance.choices(range(len(coded) + 1), k=chance.randint(0, 12)))
            pieces = [coded[a:b] for a, b in zip([0] + cuts, cuts + [len(coded)])]
            got, rest = decode(b"", pieces=pieces)
            self.assertEqual(got, body)
            self.assertTrue(b"next".startswith(rest))

    def test_waits_for_the_end(self):
        for data in (b"", b"5", b"5\r\nabc", b"5\r\nabcde", b"5\r\nabcde\r", b"0\r\n", b"0\r\nX: y\r\n", b"0\r\n\r"):
            self.assertIsNone(decode(data), data)

    def test_refuses_what_could_be_read_differently(self):
        for data in (
            b"5\nabcde\r\n",
            b"5\r\nabcdef\r\n",
            b"5\r\nabcde\n0\r\n\r\n",
            b"5 \r\nabcde\r\n",
            b" 5\r\nabcde\r\n",
            b"+5\r\nabcde\r\n",
            b"0x5\r\nabcde\r\n",
            b"5_0\r\nabcde\r\n",
            b"-1\r\n",
            b"\r\n",
            b";a\r\n",
            b"g\r\n",
            b"1000000000000000\r\n",
            b"5;a\0\r\n",
            b"5;a\rb\r\n",
            b"5;" + b"a" * 2000 + b"\r\n",
            b"5" * 2000,
            b"0\r\nX y\r\n\r\n",
            b"0\r\n X: y\r\n\r\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\nX: " + b"y" * 20000 + b"\r\n\r\n",
            b"0\r\n" + b"X: y\r\n" * 4000 + b"\r\n",
            (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 100,
        ):
            with self.assertRaises(HttpError, msg=data[:60]) as caught:
                decode(data)
            self.assertEqual(caught.exception.status, 400)

    def test_refuses_more_than_the_bound_before_it_arrives(self):
        with self.assertRaises(HttpError) as caught:
            decode(b"8\r\nabcdefgh\r\n9\r\n", most=16)
        self.assertEqual(caught.exception.status, 413)


if __name__ == "__main__":
    unittest.main()

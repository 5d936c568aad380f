"""Connections to a real replica: keep-alive, pipelining, 100-continue, limits, deadlines, hostile requests."""

import random
import socket
import threading
import unittest

from support import Replica, request, until

SOURCE = """
import asyncio, os

def echo(value=None):
    return value

async def hold():
    while not os.path.exists("go"):
        await asyncio.sleep(0.003)
    return "held"

async def large():
    return "x" * 3000000
"""
CALL = request("POST", "/echo", b'{"value": 1}')


class LocalHostsTest(unittest.TestCase):
    STRANGE = ("evil.test", "evil.test:8000", "localhost.evil.test", "notlocalhost", "127.0.0.1.evil.test", "1.2.3", "")
    STRANGE += ("256.0.0.1", "1.2.3.4.5", "[::1].evil.test", "[evil]", "[", "[]", "[::1", "-1.2.3.4", "0x7f.0.0.1")
    LOCAL = ("127.0.0.1", "127.0.0.1:8000", "192.168.1.7", "[::1]", "[::1]:8000", "[::ffff:127.0.0.1]:80")
    LOCAL += ("localhost", "LocalHost:8000", "app.localhost", "app.localhost:8000")

    def test_answers_no_name_of_a_stranger_where_it_is_told_so(self):
        with Replica(SOURCE, local_hosts=1) as replica, replica.client() as client:
            for host in self.STRANGE:
                for method, path in (("POST", "/echo"), ("GET", "/_slipway/ready"), ("GET", "/nothing")):
                    client.send(request(method, path, host=host))
                    answer = client.answer()
                    self.assertEqual(answer.status, 403, host)
                    self.assertIn("Host is %r, but only an IP address or localhost" % host, answer.message)
            for host in self.LOCAL:
                client.send(request("POST", "/echo", b'{"value": 1}', host=host))
                self.assertEqual(client.answer().status, 200, host)

    def test_answers_every_name_on_a_platform(self):
        with Replica(SOURCE) as replica, replica.client() as client:
            for host in self.STRANGE + self.LOCAL:
                client.send(request("POST", "/echo", b'{"value": 1}', host=host))
                self.assertEqual(client.answer().status, 200, host)


class ConnectionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replica = Replica(SOURCE, max_body_bytes=10000000)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def refused(self, data, status, closes=True):
        """Sends `data` and expects a refusal, and the connection's end."""
        with self.replica.client() as client:
            client.send(data)
            answer = client.answer()
            self.assertEqual(answer.status, status, data[:100])
            self.assertTrue(answer.message)
            if closes:
                self.assertEqual(answer.fields["connection"], "close")
                self.assertTrue(client.ended(), data[:100])

    def test_keeps_a_connection_for_many_requests(self):
        with self.replica.client() as client:
            for value in range(200):
                self.assertEqual(client.call("echo", {"value": value}).result, value)
            answer = client.call("echo", connection="close")
            self.assertEqual(answer.fields["connection"], "close")
            self.assertTrue(client.ended())

    def test_answers_pipelined_requests_in_order(self):
        bodies = [request("POST", "/echo", b'{"value": %d}' % value) for value in range(100)]
        with Replica(SOURCE) as replica, replica.client() as client:
            client.send(request("POST", "/hold", b"{}") + b"\r\n".join(bodies) + request("GET", "/_slipway/ready"))
            self.assertEqual(replica.get("/_slipway/ready").status, 200)
            open(replica.path("go"), "w").close()
            self.assertEqual(client.answer().result, "held")
            self.assertEqual([client.answer().result for _ in bodies], list(range(100)))
            self.assertEqual(client.answer().message, "ready")

    def test_takes_requests_in_whatever_pieces_they_come(self):
        chance = random.Random(21)
        chunked = request("POST", "/echo", b'5\r\n{"val\r\n7;x\r\nue": 1}\r\n0\r\n\r\n', transfer_encoding="chunked")
        data = (CALL + chunked) * 10
        with self.replica.client() as client:
            at = 0
            while at < len(data):
                size = chance.choice((1, 2, 3, 50, 200))
                client.send(data[at : at + size])
                at += size
            self.assertEqual([client.answer().result for _ in range(20)], [1] * 20)

    def test_reads_on_only_so_far_while_a_call_runs(self):
        with Replica(SOURCE) as replica, replica.client() as client:
            client.send(request("POST", "/hold", b"{}"))
            client.socket.settimeout(0.2)
            sent = 0
            with self.assertRaises(socket.timeout):
                while sent < 100000000:
                    sent += client.socket.send(CALL * 1000)
            client.socket.settimeout(20)
            open(replica.path("go"), "w").close()
            self.assertEqual(client.answer().result, "held")
            self.assertEqual([client.answer().result for _ in range(500)], [1] * 500)

    def test_waits_for_a_client_that_pipelines_and_does_not_read(self):
        with self.replica.client() as client:
            client.send(request("POST", "/large", b"{}") * 5)
            self.assertEqual(self.replica.call("echo", {"value": 1}).result, 1)
            self.assertEqual([len(client.answer().result) for _ in range(5)], [3000000] * 5)

    def test_takes_a_large_body_sent_before_the_answers_are_read(self):
        with self.replica.client() as client:
            client.send(request("POST", "/large", b"{}") * 5)
            big = request("POST", "/echo", b'{"value": "%b"}' % (b"y" * 2000000))
            sender = threading.Thread(target=client.send, args=(big,))
            sender.start()
            self.assertEqual([len(client.answer().result) for _ in range(5)], [3000000] * 5)
            self.assertEqual(len(client.answer().result), 2000000)
            sender.join()

    def test_invites_a_body_only_when_it_wants_it(self):
        with self.replica.client() as client:
            client.send(request("POST", "/echo", expect="100-continue", content_length=12))
            self.assertEqual(client.head()[0], 100)
            client.send(b'{"value": 1}')
            self.assertEqual(client.answer().result, 1)
            client.send(CALL.replace(b"host:", b"expect: 100-continue\r\nhost:"))
            self.assertEqual(client.answer().result, 1)  # No invitation: the body is there.
        self.refused(request("POST", "/nothing", expect="100-continue", content_length=12), 404)
        self.refused(request("POST", "/echo", expect="100-continue", content_length=10000001), 413)

    def test_reads_a_small_refused_body_and_keeps_the_connection(self):
        with self.replica.client() as client:
            for piece in (b"x" * 1000, b"x" * 60000):
                self.assertEqual(client.call("nothing", piece.decode()).status, 404)
            client.send(request("POST", "/nothing", b"5\r\nabcde\r\n0\r\n\r\n", transfer_encoding="chunked"))
            self.assertEqual(client.answer().status, 404)
            self.assertEqual(client.call("echo", {"value": 1}).result, 1)

    def test_refuses_a_body_that_is_coded(self):
        for coding in ("gzip", "GZIP", "br", "identity, gzip"):
            self.refused(request("POST", "/echo", b"{}", content_encoding=coding), 415)
        with self.replica.client() as client:
            client.send(request("POST", "/echo", b'{"value": 1}', content_encoding="Identity"))
            self.assertEqual(client.answer().result, 1)
            client.send(request("GET", "/_slipway/health", content_encoding="gzip"))
            self.assertEqual(client.answer().status, 200)

    def test_refuses_a_large_body_so_that_the_client_can_read_why(self):
        for path, status in (("/echo", 413), ("/nothing", 404)):
            with self.replica.client() as client:
                client.send(request("POST", path, content_length=20000000) + b"x" * 9000000)
                answer = client.answer()
                self.assertEqual((answer.status, answer.fields["connection"]), (status, "close"))
        self.refused(request("POST", "/echo", b"989681\r\n", transfer_encoding="chunked"), 413)

    def test_serves_old_clients(self):
        with self.replica.client() as client:
            client.send(b'POST /echo HTTP/1.0\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\n{"value": 1}')
            answer = client.answer()
            self.assertEqual((answer.result, answer.fields["connection"]), (1, "keep-alive"))
            client.send(b'POST /echo HTTP/1.0\r\nContent-Length: 12\r\n\r\n{"value": 2}')
            self.assertEqual(client.answer().result, 2)
            self.assertTrue(client.ended())

    def test_refuses_what_could_smuggle_a_request(self):
        start = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
        hidden = b"GET /_slipway/health HTTP/1.1\r\nHost: a\r\n\r\n"
        for data, status in (
            (start + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden, 400),
            (start + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + hidden, 400),
            (start + b"Content-Length: 0, 5\r\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, 501),
            (start + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + hidden, 400),
            (start + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n" + hidden, 400),
            (start + b"X: y\nContent-Length: 5\r\n\r\n" + hidden, 400),
            (b"POST /echo HTTP/1.1\nHost: a\n\n" + hidden, 400),
            (b"POST /echo HTTP/1.1\nHost: a\n\n", 400),
            (start + b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + hidden, 400),
            (start + b"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n" + hidden, 400),
            (b"GET /_slipway/health HTTP/1.1\r\n\r\n" + hidden, 400),
            (b"\0\1\2\3\r\n\r\n" + hidden, 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n" + b"\0" * 40, 400),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            (start + b"X: " + b"y" * 70000, 431),
            (b"x" * 70000, 431),
        ):
            self.refused(data, status)

    def test_survives_noise(self):
        chance = random.Random(22)
        for _ in range(150):
            data = bytearray(CALL * 2)
            for _ in range(chance.randint(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            with self.replica.client() as client:
                client.send(bytes(data))
                client.socket.shutdown(socket.SHUT_WR)
                while client.more():
                    pass
        self.assertEqual(self.replica.call("echo", {"value": 1}).result, 1)
        self.assertNotIn("Traceback", self.replica.stderr())


class DeadlineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replica = Replica(SOURCE, read_seconds=0.8, idle_seconds=0.8)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def saying(self, data):
        """A new connection on which this was sent."""
        client = self.replica.client()
        client.send(data)
        return client

    def test_every_wait_for_a_client_ends(self):
        # Each says at once what it has to say: on a busy machine the time for it may be over a moment later.
        slow = self.saying(request("POST", "/hold", b"{}"))
        head = self.saying(b"POST /echo HTTP/1.1\r\nHost")
        body = self.saying(request("POST", "/echo", content_length=10) + b"{")
        chunks = self.saying(request("POST", "/echo", b"1\r\n{", transfer_encoding="chunked"))
        kept = self.saying(CALL)
        self.assertEqual(kept.answer().result, 1)
        silent = self.saying(b"")
        for client in (silent, kept):
            self.assertTrue(client.ended())
        for client in (head, body, chunks):
            self.assertEqual(client.answer().status, 408)
            self.assertTrue(client.ended())
        open(self.replica.path("go"), "w").close()
        self.assertEqual(slow.answer().result, "held")  # A call is not a wait for the client.
        for client in (silent, head, body, chunks, kept, slow):
            client.close()

    def test_a_body_that_trickles_is_refused_however_often_a_byte_comes(self):
        with self.replica.client() as client:
            client.send(request("POST", "/echo", content_length=1000000))

            def refused():
                try:
                    client.send(b" ")
                    client.socket.settimeout(0.01)
                    return client.more()
                except (socket.timeout, BrokenPipeError, ConnectionResetError):
                    return False

            until(refused)
            self.assertTrue(client.buffer.startswith(b"HTTP/1.1 408"))


if __name__ == "__main__":
    unittest.main()

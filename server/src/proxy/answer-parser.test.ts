// Answers from replicas: the same bytes give the same answer however they are cut, and nothing that
// two readers could understand in two ways is understood at all.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { anyText } from "#test/support/any-text.ts";
import { answerFields, type AnswerHead } from "./answer-head.ts";
import { AnswerParser, type AnswerSink } from "./answer-parser.ts";

type Heard = {
  informations: number[];
  head: (Pick<AnswerHead, "status" | "reason" | "keepsOpen"> & { fields: string[] }) | null;
  body: string;
  trailers: readonly string[] | null;
  problem: string | undefined;
  /** What the end of the connection was taken for. */
  isEndedByClose: boolean;
};

type Asking = { readonly isHead?: boolean; readonly isUpgrade?: boolean };

/** Feeds the pieces and then the end of the connection. */
function hear(
  pieces: readonly Buffer[],
  { isHead = false, isUpgrade = false }: Asking = {},
): Heard {
  const parser = new AnswerParser();
  const heard: Heard = {
    informations: [],
    head: null,
    body: "",
    trailers: null,
    problem: undefined,
    isEndedByClose: false,
  };
  const sink: AnswerSink = {
    onInformation: (head) => heard.informations.push(head.status),
    onHead: (head) => {
      const { status, reason, keepsOpen } = head;
      heard.head = { status, reason, fields: answerFields(head), keepsOpen };
    },
    onPiece: (piece) =>
      (heard.body += typeof piece === "string" ? piece : piece.toString("latin1")),
    onEnd: (trailers) => (heard.trailers = trailers),
  };
  parser.expect({ isHead, isUpgrade }, sink);
  // As a socket does it: one buffer that each read overwrites.
  const shared = Buffer.alloc(65_536);
  for (const piece of pieces) {
    if (parser.problem !== undefined) break;
    piece.copy(shared);
    parser.push(shared, piece.length);
    shared.fill(0x58);
  }
  heard.isEndedByClose = parser.problem === undefined && parser.finish();
  heard.problem = parser.problem;
  return heard;
}

function hearText(text: string, asking: Asking = {}): Heard {
  return hear([Buffer.from(text, "latin1")], asking);
}

/** Every byte on its own. */
function hearBytes(text: string, asking: Asking = {}): Heard {
  return hear(
    [...Buffer.from(text, "latin1")].map((byte) => Buffer.from([byte])),
    asking,
  );
}

const small = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

test("an answer with a length is read whole", () => {
  const heard = hearText(small);
  assert.deepEqual(heard.head, {
    status: 200,
    reason: "OK",
    fields: ["Content-Type", "text/plain", "Content-Length", "5"],
    keepsOpen: true,
  });
  assert.equal(heard.body, "hello");
  assert.deepEqual(heard.trailers, []);
});

test("a chunked answer is read with its trailers, without extensions", () => {
  const text =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
  const heard = hearText(text);
  assert.equal(heard.body, "hello0123456789");
  assert.deepEqual(heard.trailers, ["X-Sum", "1"]);
  assert.deepEqual(heard.head?.fields, []);
});

test("the error that the runtime names in a chunk is read, however it arrives, and nothing else", () => {
  const errorOf = (extension: string): (string | null)[] => {
    const text = `${chunkedHead}5\r\nhello\r\n3;${extension}\r\nend\r\n`;
    return [[Buffer.from(text)], [...Buffer.from(text)].map((byte) => Buffer.from([byte]))].map(
      (pieces) => {
        const parser = new AnswerParser();
        const ignored = () => undefined;
        const sink = { onInformation: ignored, onHead: ignored, onPiece: ignored, onEnd: ignored };
        parser.expect({ isHead: false, isUpgrade: false }, sink);
        for (const piece of pieces) parser.push(piece, piece.length);
        assert.equal(parser.problem, undefined);
        return parser.error;
      },
    );
  };
  const both = (error: string | null) => [error, error];
  assert.deepEqual(
    errorOf("slipway-error=ValueError%3A%20f%C3%BCr%205%20%25"),
    both("ValueError: für 5 %"),
  );
  assert.deepEqual(errorOf("slipway-error=E%3A%0D%0Aa%00b%1B"), both("E:  a b"));
  assert.deepEqual(errorOf(`slipway-error=${"x".repeat(900)}`), both(`${"x".repeat(300)}…`));
  for (const extension of [
    "a=b",
    "slipway-error=",
    "slipway-error=%FF",
    "slipway-error=%",
    "slipway-error",
  ]) {
    assert.deepEqual(errorOf(extension), both(null), extension);
  }
});

test("an answer without a length ends with its connection, which is not used again", () => {
  for (const version of ["1.0", "1.1"]) {
    const heard = hearText(`HTTP/${version} 200 OK\r\n\r\nall of it`);
    assert.equal(heard.body, "all of it");
    assert.ok(heard.isEndedByClose);
    assert.equal(heard.head?.keepsOpen, false);
  }
});

test("answers that have no body are complete with their head", () => {
  const length = "Content-Length: 5\r\n\r\n";
  assert.deepEqual(hearText(`HTTP/1.1 200 OK\r\n${length}`, { isHead: true }).trailers, []);
  assert.deepEqual(hearText(`HTTP/1.1 304 Not Modified\r\n${length}`).trailers, []);
  assert.deepEqual(hearText("HTTP/1.1 204 No Content\r\n\r\n").trailers, []);
  assert.deepEqual(hearText("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").trailers, []);
  assert.deepEqual(hearText(`HTTP/1.1 204 No Content\r\n${length}`).head?.fields, []);
});

test("informational answers come before the real one", () => {
  const heard = hearText(
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${small}`,
  );
  assert.deepEqual(heard.informations, [100, 103]);
  assert.equal(heard.body, "hello");
  assert.ok(hearText("HTTP/1.1 100 Continue\r\n\r\n".repeat(33)).problem);
});

test("fields of the connection and those that it names are not handed on", () => {
  const head = [
    "HTTP/1.1 200",
    "Connection: X-Mine, keep-alive",
    "Keep-Alive: timeout=5",
    "x-mine: 1",
    "Proxy-Authenticate: Basic",
    "X-Request-Id: made-up",
    "Set-Cookie: a=1",
    "Set-Cookie: b=2",
    "Content-Length: 0",
  ].join("\r\n");
  const heard = hearText(`${head}\r\n\r\n`);
  assert.deepEqual(heard.head?.fields, ["Content-Length", "0"], "cookies are kept aside");
  assert.equal(heard.head?.reason, "");
});

test("a replica that says close is not asked again", () => {
  const closing = small.replace("\r\n\r\n", "\r\nConnection: Close\r\n\r\n");
  assert.equal(hearText(closing).head?.keepsOpen, false);
  assert.equal(hearText(small.replace("1.1", "1.0")).head?.keepsOpen, false);
});

const crlf = "\r\n\r\n";
const hostileHeads: Record<string, string> = {
  "both length and chunked": `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked${crlf}`,
  "two lengths": `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5${crlf}hello`,
  "two lengths in one": `HTTP/1.1 200 OK\r\nContent-Length: 5, 5${crlf}hello`,
  "a negative length": `HTTP/1.1 200 OK\r\nContent-Length: -1${crlf}`,
  "a signed length": `HTTP/1.1 200 OK\r\nContent-Length: +5${crlf}hello`,
  "a hexadecimal length": `HTTP/1.1 200 OK\r\nContent-Length: 0x5${crlf}hello`,
  "an empty length": `HTTP/1.1 200 OK\r\nContent-Length: ${crlf}`,
  "a length too large to count": `HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999${crlf}`,
  "an unknown coding": `HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked${crlf}`,
  "chunked twice": `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked${crlf}0\r\n\r\n`,
  "chunked with a vertical tab": `HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked${crlf}`,
  "chunked in HTTP/1.0": `HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked${crlf}0\r\n\r\n`,
  "chunked in a 204": `HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked${crlf}0\r\n\r\n`,
  "chunked in a 103": `HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked${crlf}0\r\n\r\n`,
  "a blank before the colon": `HTTP/1.1 200 OK\r\nContent-Length : 5${crlf}hello`,
  "a folded field": `HTTP/1.1 200 OK\r\nX-A: b\r\n c${crlf}`,
  "a bare LF between fields": `HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 0${crlf}`,
  "a bare CR in a value": `HTTP/1.1 200 OK\r\nX-A: b\rc${crlf}`,
  "a NUL in a value": `HTTP/1.1 200 OK\r\nX-A: b\0c${crlf}`,
  "a field without a name": `HTTP/1.1 200 OK\r\n: b${crlf}`,
  "a field without a colon": `HTTP/1.1 200 OK\r\nX-A${crlf}`,
  "a name with a blank": `HTTP/1.1 200 OK\r\nX A: b${crlf}`,
  "lines that end with LF alone": "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
  "another version": `HTTP/2.0 200 OK${crlf}`,
  "a version with two digits": `HTTP/1.10 200 OK${crlf}`,
  "a status of two digits": `HTTP/1.1 20 OK${crlf}`,
  "a status of four digits": `HTTP/1.1 2000 OK${crlf}`,
  "a status below 100": `HTTP/1.1 099 OK${crlf}`,
  "blanks before the status line": ` HTTP/1.1 200 OK${crlf}`,
  "an empty line before the status line": `\r\nHTTP/1.1 200 OK${crlf}`,
  "a protocol that nobody asked for": `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x${crlf}`,
  "a greeting of another protocol": "SSH-2.0-OpenSSH_9.2\r\n",
  "a TLS alert": "\x15\x03\x01\x00\x02\x02\x50",
};

test("a head that is not strictly HTTP/1.1 is refused, and nothing of it handed on", () => {
  for (const [what, text] of Object.entries(hostileHeads)) {
    for (const heard of [hearText(text), hearBytes(text)]) {
      assert.ok(heard.problem, `the connection can be used again after ${what}`);
      assert.equal(heard.head, null, what);
      assert.equal(heard.trailers, null, what);
    }
  }
});

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const hostileChunks: Record<string, string> = {
  "no size": "\r\nhello\r\n0\r\n\r\n",
  "a size that is no number": "g\r\n",
  "a size with a prefix": "0x5\r\nhello\r\n",
  "a size with a sign": "+5\r\nhello\r\n",
  "a size with a blank": "5 \r\nhello\r\n0\r\n\r\n",
  "a size that is too large": "fffffffffffffff\r\n",
  "a size line with LF alone": "5\nhello\r\n0\r\n\r\n",
  "data that is longer than its size": "3\r\nhello\r\n0\r\n\r\n",
  "data that is shorter than its size": "7\r\nhello\r\n0\r\n\r\n0\r\n",
  "an extension without end": `5;${"a".repeat(1_025)}\r\nhello\r\n0\r\n\r\n`,
  "an extension with LF alone": "5;a\nhello\r\n0\r\n\r\n",
  "trailers that are no fields": "0\r\nno colon\r\n\r\n",
  "trailers without end": `0\r\n${"X-A: bbbbbbbbbbbbbbbb\r\n".repeat(1000)}`,
};

test("a chunked body that is not strictly so is never complete", () => {
  for (const [what, text] of Object.entries(hostileChunks)) {
    for (const heard of [hearText(chunkedHead + text), hearBytes(chunkedHead + text)]) {
      assert.ok(heard.problem, what);
      assert.equal(heard.trailers, null, what);
    }
  }
});

test("a head that never ends is given up on", () => {
  const heard = hearText("HTTP/1.1 200 OK\r\n" + "X-A: b\r\n".repeat(7000));
  assert.equal(heard.problem, undefined, "56 kB may still become a head");
  const endless = hear([
    Buffer.from("HTTP/1.1 200 OK\r\n"),
    ...Array(20).fill(Buffer.from("X-A: b\r\n".repeat(500))),
  ]);
  assert.match(endless.problem ?? "", /longer than/);
});

test("bytes after the end never become the answer to the next call", () => {
  for (const text of [
    `${small}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged`,
    `${small}\r\n`,
  ]) {
    for (const heard of [hearText(text), hearBytes(text)]) {
      assert.equal(heard.body, "hello", "the answer itself is good");
      assert.ok(heard.problem, "the connection cannot be used again");
    }
  }
});

test("a call that begins while an answer is being told does not get what is left of its bytes", () => {
  const parser = new AnswerParser();
  const second: string[] = [];
  const sinkOf = (onEnd: () => void, bodies: string[]): AnswerSink => ({
    onInformation: () => undefined,
    onHead: () => undefined,
    onPiece: (piece) => bodies.push(String(piece)),
    onEnd,
  });
  const next = sinkOf(() => undefined, second);
  parser.expect(
    { isHead: false, isUpgrade: false },
    sinkOf(() => {
      if (parser.problem === undefined) parser.expect({ isHead: false, isUpgrade: false }, next);
    }, []),
  );
  const bytes = Buffer.from(`${small}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged`);
  parser.push(bytes, bytes.length);
  assert.deepEqual(second, []);
});

test("after a switch of protocols all bytes are the other protocol's", () => {
  const heard = new AnswerParser();
  const heads: number[] = [];
  heard.expect(
    { isHead: false, isUpgrade: true },
    {
      onInformation: () => undefined,
      onHead: (head) => heads.push(head.status),
      onPiece: () => undefined,
      onEnd: () => undefined,
    },
  );
  const bytes = Buffer.from(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x00",
    "latin1",
  );
  heard.push(bytes, bytes.length);
  assert.deepEqual(heads, [101]);
  assert.deepEqual(heard.rest, Buffer.from([0x81, 0]));
  assert.equal(heard.problem, undefined);
});

/** Answers of all forms, and their bytes with a few changed. */
const fieldArbitrary = fc.constantFrom(
  "X-A: b",
  "Set-Cookie: a=b",
  "Connection: close",
  "Connection: x-a",
  "Keep-Alive: timeout=3",
  "Date: now",
);
const bodyArbitrary = anyText({ maxLength: 300 }).map((text) =>
  Buffer.from(text).toString("latin1"),
);
const answerArbitrary: fc.Arbitrary<string> = fc
  .record({
    fields: fc.array(fieldArbitrary, { maxLength: 5 }),
    bodies: fc.array(bodyArbitrary, { maxLength: 4 }),
  })
  .chain(({ fields, bodies }) => {
    const head = ["HTTP/1.1 200 OK", ...fields].join("\r\n");
    const whole = bodies.join("");
    const chunks = bodies
      .filter((body) => body !== "")
      .map((body) => `${body.length.toString(16)}\r\n${body}\r\n`);
    return fc.constantFrom(
      `${head}\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
      `${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`,
      `${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\nX-Sum: 1\r\n\r\n`,
      `${head}\r\n\r\n${whole}`,
      `HTTP/1.1 100 Continue\r\n\r\n${head}\r\nContent-Length: ${whole.length}\r\n\r\n${whole}`,
    );
  });
const changedArbitrary: fc.Arbitrary<string> = fc
  .tuple(
    answerArbitrary,
    fc.array(
      fc.tuple(fc.nat(), fc.constantFrom("\r", "\n", "\0", ":", " ", "0", "f", "", "\r\n")),
      { maxLength: 3 },
    ),
  )
  .map(([text, changes]) =>
    changes.reduce<string>((changed, [position, by]) => {
      const at = position % (changed.length + 1);
      return changed.slice(0, at) + by + changed.slice(at + 1);
    }, text),
  );

function cut(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  const ends = [
    0,
    ...cuts.map((position) => position % (bytes.length + 1)).toSorted((a, b) => a - b),
    bytes.length,
  ];
  return ends.slice(1).map((position, index) => bytes.subarray(ends[index], position));
}

test("how the bytes are cut does not change what is understood", () => {
  fc.assert(
    fc.property(
      fc.oneof(answerArbitrary, changedArbitrary),
      fc.array(fc.nat(), { maxLength: 12 }),
      (text, cuts) => {
        const whole = hearText(text);
        const pieces = hear(cut(text, cuts));
        const isBroken = whole.problem !== undefined;
        assert.equal(pieces.problem !== undefined, isBroken);
        assert.deepEqual(pieces.head, whole.head);
        assert.deepEqual(pieces.trailers, whole.trailers);
        assert.equal(pieces.isEndedByClose, whole.isEndedByClose);
        // The part of a broken body before the break may differ by what was read together with it.
        if (!isBroken || whole.trailers !== null) assert.equal(pieces.body, whole.body);
      },
    ),
    { numRuns: 1000 },
  );
});

// Signatures: what receivers verify with the libraries that they use, and the published vector.
import assert from "node:assert/strict";
import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { newDeliveryId, newRunId, newProjectId, type EndpointId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import { secretPrefix, standardSignature } from "#lib/webhook-signature.ts";
import type { Delivery } from "./delivery.ts";
import { callerSignature, headersOf } from "./sign.ts";

function deliveryWith(changes: Partial<Delivery>): Delivery {
  return {
    id: newDeliveryId(),
    endpointId: randomUUID() as EndpointId,
    projectId: newProjectId(),
    runId: newRunId(),
    url: "https://receiver.example/hook",
    secret: null,
    statusCode: 200,
    contentType: "application/json",
    contentFields: null,
    body: Buffer.from('{"result":1}'),
    scheduleAttempts: 0,
    ...changes,
  };
}

test("the published vector of Standard Webhooks comes out", () => {
  const key = Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64");
  const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: Buffer.from('{"test": 2432232314}') };
  assert.equal(
    standardSignature([key], message, 1614265330),
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  );
});

test("standardwebhooks and svix verify any body with either secret of a rotation, and no other", () => {
  const bodies = fc.oneof(
    fc.json().map((text) => Buffer.from(text)),
    fc.constant(Buffer.from('"ünï 🎉"')),
  );
  fc.assert(
    fc.property(bodies, fc.uint8Array({ minLength: 24, maxLength: 64 }), (body, first) => {
      const keys = [Buffer.from(first), randomBytes(32)];
      const headers = headersOf(deliveryWith({ body }), { keys, nowMs: Date.now() });
      for (const key of keys) {
        const secret = `${secretPrefix}${key.toString("base64")}`;
        new Webhook(secret).verify(body.toString(), headers);
        new SvixWebhook(secret).verify(body.toString(), headers);
      }
      const other = `${secretPrefix}${randomBytes(32).toString("base64")}`;
      assert.throws(() => new Webhook(other).verify(body.toString(), headers));
      assert.throws(() =>
        new Webhook(`${secretPrefix}${keys[1]?.toString("base64")}`).verify(`${body} `, headers),
      );
    }),
    { numRuns: 50 },
  );
});

test("each attempt has its own time, and the same id", () => {
  const delivery = deliveryWith({});
  const first = headersOf(delivery, { keys: [randomBytes(32)], nowMs: 1_700_000_000_999 });
  const second = headersOf(delivery, { keys: [randomBytes(32)], nowMs: 1_700_000_300_000 });
  assert.equal(first["webhook-id"], delivery.id);
  assert.equal(second["webhook-id"], delivery.id);
  assert.deepEqual(
    [first["webhook-timestamp"], second["webhook-timestamp"]],
    ["1700000000", "1700000300"],
  );
});

test("without a secret of the project there is no signature; the id, the run and the answer's status are always said", () => {
  const delivery = deliveryWith({ statusCode: 503 });
  const headers = headersOf(delivery, { keys: [], nowMs: 1_700_000_000_000 });
  assert.deepEqual(headers, {
    "Content-Type": "application/json",
    "X-Request-Id": delivery.runId,
    "Slipway-Status-Code": "503",
    "webhook-id": delivery.id,
    "webhook-timestamp": "1700000000",
  });
});

test("a caller's secret signs the run's id, the time and the body, in hexadecimal digits", () => {
  const body = Buffer.from([0, 1, 2, 255]);
  const delivery = deliveryWith({ body, secret: new Secret("my secret") });
  const headers = headersOf(delivery, { keys: [], nowMs: 1_700_000_000_000 });
  const signed = Buffer.concat([Buffer.from(`${delivery.runId}.1700000000.`), body]);
  const expected = createHmac("sha256", "my secret").update(signed).digest("hex");
  assert.equal(headers["X-Cerebrium-Webhook-Timestamp"], "1700000000");
  assert.equal(headers["X-Cerebrium-Webhook-Signature"], `v1,${expected}`);
});

test("a caller's secret counts as the bytes that were sent", () => {
  const message = { runId: "run", body: Buffer.from("{}") };
  const asHeader = Buffer.from("schlüssel").toString("latin1");
  const expected = createHmac("sha256", "schlüssel").update("run.1.{}").digest("hex");
  assert.equal(callerSignature(asHeader, message, 1), `v1,${expected}`);
});

test("a content type is passed on as it is; what cannot stand in a header is JSON", () => {
  const typeOf = (contentType: string | null): string | undefined =>
    headersOf(deliveryWith({ contentType }), { keys: [], nowMs: 0 })["Content-Type"];
  assert.equal(typeOf("text/event-stream; charset=utf-8"), "text/event-stream; charset=utf-8");
  for (const odd of [null, "", "a\r\nX-Evil: 1", "a\0b", "text/\u{1f600}", "x".repeat(2000)]) {
    assert.equal(typeOf(odd), "application/json", JSON.stringify(odd));
  }
});

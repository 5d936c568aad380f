// The header fields of an attempt: Standard Webhooks signatures with every valid secret of the
// project, another signature if the caller sent a secret, and the details of the answer. Pure.
import { createHmac } from "node:crypto";
import { standardSignature } from "#lib/webhook-signature.ts";
import type { Delivery } from "./delivery.ts";

/** The inputs of an attempt's signatures. */
export type Signing = {
  /** The decoded keys; none: the project is deleted. */
  readonly keys: readonly Buffer[];
  /** The time of the attempt. */
  readonly nowMs: number;
};

/** Everything that a receiver gets besides the body. */
export function headersOf(delivery: Delivery, { keys, nowMs }: Signing): Record<string, string> {
  const seconds = Math.floor(nowMs / 1000);
  const headers: Record<string, string> = {
    "Content-Type": usable(delivery.contentType) ?? "application/json",
    ...contentHeaders(delivery),
    "X-Request-Id": delivery.runId,
    "Slipway-Status-Code": String(delivery.statusCode),
    "webhook-id": delivery.id,
    "webhook-timestamp": String(seconds),
  };
  if (keys.length > 0) headers["webhook-signature"] = standardSignature(keys, delivery, seconds);
  if (delivery.secret !== null) {
    headers["X-Cerebrium-Webhook-Timestamp"] = String(seconds);
    headers["X-Cerebrium-Webhook-Signature"] = callerSignature(
      delivery.secret.reveal(),
      delivery,
      seconds,
    );
  }
  return headers;
}

/** The signature for the caller's secret: `v1,<hex>`, with the secret as the key. */
export function callerSignature(
  secret: string,
  message: { readonly runId: string; readonly body: Buffer },
  seconds: number,
): string {
  const hmac = createHmac("sha256", bytesOfField(secret));
  return `v1,${hmac.update(`${message.runId}.${seconds}.`).update(message.body).digest("hex")}`;
}

/**
 * The bytes of the header field that the caller sent. The field has one character per byte; any
 * other text is encoded as UTF-8.
 */
function bytesOfField(value: string): Buffer {
  return Buffer.from(value, /^[\0-\xff]*$/.test(value) ? "latin1" : "utf8");
}

/** The fields besides `Content-Type` with which the app describes the body. */
function contentHeaders({ contentFields }: Delivery): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of ["Content-Encoding", "Content-Language", "Content-Disposition"]) {
    const value = usable(contentFields?.[name.toLowerCase()] ?? null);
    if (value !== null) headers[name] = value;
  }
  return headers;
}

/** The value if it is short and has only characters that a header may have, else null. */
function usable(value: string | null): string | null {
  return value !== null && /^[\x20-\x7e\x80-\xff]{1,1024}$/.test(value) ? value : null;
}

// Which endpoint a delivery belongs to, and which other endpoints it shares a receiver with. Pure, so that whoever has a
// delivery knows both without asking the database.
import { createHash } from "node:crypto";
import type { EndpointId, ProjectId } from "#lib/ids.ts";

/** Where a delivery goes. */
export type Endpoint = {
  readonly id: EndpointId;
  /** Without query and fragment. */
  readonly url: string;
  /** Project and origin: what shares it is slow together, so it shares the places for deliveries. */
  readonly lane: string;
};

/** The endpoint of a URL that can be parsed; the same URL of another project is another endpoint. */
export function endpointOf(projectId: ProjectId, url: string): Endpoint {
  const { origin, pathname } = new URL(url);
  const plain = `${origin}${pathname}`;
  const hash = createHash("sha256").update(`${projectId}\n${plain}`).digest();
  return { id: uuidOf(hash) as EndpointId, url: plain, lane: `${projectId} ${origin}` };
}

/** A UUID of version 8, which is for ids that are made of something. */
function uuidOf(hash: Buffer): string {
  const bytes = Buffer.from(hash.subarray(0, 16));
  bytes[6] = (bytes.readUInt8(6) & 0x0f) | 0x80;
  bytes[8] = (bytes.readUInt8(8) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

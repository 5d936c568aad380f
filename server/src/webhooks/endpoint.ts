// Maps a delivery to its endpoint, and to the lane of endpoints with the same receiver. Pure: the
// endpoint's id is a hash, so that no database query is needed.
import { createHash } from "node:crypto";
import type { EndpointId, ProjectId } from "#lib/ids.ts";

/** The destination of a delivery. */
export type Endpoint = {
  readonly id: EndpointId;
  /** The URL without query and fragment. */
  readonly url: string;
  /**
   * Names the project and the origin. The endpoints of a lane slow down together, so they share
   * delivery slots.
   */
  readonly lane: string;
};

/** The endpoint of a URL that can be parsed; each project has its own endpoint for the same URL. */
export function endpointOf(projectId: ProjectId, url: string): Endpoint {
  const { origin, pathname } = new URL(url);
  const plain = `${origin}${pathname}`;
  const hash = createHash("sha256").update(`${projectId}\n${plain}`).digest();
  return { id: uuidOf(hash) as EndpointId, url: plain, lane: `${projectId} ${origin}` };
}

/** A UUID of version 8, for ids that are derived from data. */
function uuidOf(hash: Buffer): string {
  const bytes = Buffer.from(hash.subarray(0, 16));
  // These bits are the version, and the variant that all UUIDs of RFC 9562 have.
  bytes[6] = (bytes.readUInt8(6) & 0x0f) | 0x80;
  bytes[8] = (bytes.readUInt8(8) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join("-");
}

// Bounds what is read of an HTTP answer into memory, whatever its headers say.
import { Refused } from "./refused.ts";

const bytesMax = 50_000_000;

/** The same answer; reading more than `max` bytes of it, unpacked, rejects with `Refused`. */
export function boundedAnswer(response: Response, max = bytesMax): Response {
  if (response.body === null) return response;
  let bytes = 0;
  const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(part, controller) {
      bytes += part.length;
      if (bytes > max) controller.error(new Refused(`The answer is larger than ${max / 1e6} MB.`));
      else controller.enqueue(part);
    },
  });
  return new Response(response.body.pipeThrough(count), response);
}

// Reads a stream of a stranger as text, up to a bound.

/** The whole as UTF-8. Rejects with what `tooLarge` makes once there are more bytes. */
export async function boundedText(
  stream: AsyncIterable<Buffer>,
  bytesMax: number,
  tooLarge: () => Error,
): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > bytesMax) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

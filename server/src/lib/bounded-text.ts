// Reads a stream that is not trusted as text, up to a bound.

/** Returns the whole stream as UTF-8. Rejects with the error of `tooLarge` beyond `bytesMax`. */
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

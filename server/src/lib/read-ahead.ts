// Lets a source produce its next part while the current one is in use.

/**
 * Yields the source's parts in order, and lets the source produce one part ahead. When the reader
 * stops early, the source ends too.
 */
export async function* readAhead<Part>(source: AsyncGenerator<Part>): AsyncGenerator<Part> {
  let next = source.next();
  try {
    for (let part = await next; part.done !== true; part = await next) {
      next = source.next();
      // The next turn awaits `next`; until then its rejection must not count as unhandled.
      next.catch(() => undefined);
      yield part.value;
    }
  } finally {
    await source.return(undefined);
  }
}

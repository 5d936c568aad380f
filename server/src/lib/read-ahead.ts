// Lets a source work on its next part while the one before is used.

/** The same parts in the same order; at most one is made before it is asked for. Ends the source when it is ended itself. */
export async function* readAhead<Part>(source: AsyncGenerator<Part>): AsyncGenerator<Part> {
  let next = source.next();
  try {
    for (let part = await next; part.done !== true; part = await next) {
      next = source.next();
      // Awaited in the next turn; until then a failure is nobody's.
      next.catch(() => undefined);
      yield part.value;
    }
  } finally {
    await source.return(undefined);
  }
}

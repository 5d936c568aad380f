// Work of a test that is done before the first test of its file. From there on node's runner
// follows every promise, which takes as much time again as a simulation itself.

/** Does the work now. The returned function returns its result, or throws what it threw. */
export async function ahead<T>(work: () => Promise<T>): Promise<() => T> {
  try {
    const result = await work();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

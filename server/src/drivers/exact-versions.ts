// Whether packages are the same whenever they are installed. Builders and the reuse of artifacts
// depend on it.

/**
 * True when every line of a requirements file names one exact version; the value of a variable may
 * be another one later.
 */
export function areVersionsExact(requirements: readonly string[]): boolean {
  return requirements.every(
    (line) => /===?\s*[^*\s,;$]+(\s*;.*)?$/.test(line) && !line.includes(","),
  );
}

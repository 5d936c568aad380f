// Decides whether a list of packages gives the same packages whenever it is installed. Builders and
// the reuse of artifacts depend on this.

/**
 * Whether every line of a requirements file names one exact version. A version with a variable is
 * not exact, since the variable's value may change.
 */
export function areVersionsExact(requirements: readonly string[]): boolean {
  // One `==` or `===`, a version without `*` or a variable, and perhaps a marker after a semicolon.
  // A comma would begin another condition for the version.
  return requirements.every(
    (line) => /===?\s*[^*\s,;$]+(\s*;.*)?$/.test(line) && !line.includes(","),
  );
}

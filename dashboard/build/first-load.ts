// Fails the build when what a browser loads before it shows the first page grows too large: pages
// that are seldom opened belong in chunks of their own.
import { gzipSync } from "node:zlib";
import type { Plugin, Rolldown } from "vite";

/** Sums up the entry with all that it imports statically, and their styles, compressed. */
export function firstLoad({ gzipBytesMax }: { readonly gzipBytesMax: number }): Plugin {
  return {
    name: "first-load",
    writeBundle(_options, bundle) {
      const files = filesOf(bundle);
      const sizes = files.map((name) => ({
        name,
        bytes: gzipSync(contentOf(bundle[name])).length,
      }));
      const sum = sizes.reduce((total, { bytes }) => total + bytes, 0);
      const list = sizes.map(({ name, bytes }) => `${name} ${bytes}`).join(", ");
      if (sum > gzipBytesMax) {
        this.error(
          `The first load is ${sum} bytes compressed, at most ${gzipBytesMax}: ${list}. Load rare parts lazily.`,
        );
      }
      this.info(`first load: ${sum} bytes compressed (${list})`);
    },
  };
}

function filesOf(bundle: Rolldown.OutputBundle): string[] {
  const found = new Set<string>();
  const add = (name: string): void => {
    const file = bundle[name];
    if (found.has(name) || file === undefined) return;
    found.add(name);
    if (file.type !== "chunk") return;
    for (const style of file.viteMetadata?.importedCss ?? []) found.add(style);
    for (const next of file.imports) add(next);
  };
  for (const [name, file] of Object.entries(bundle))
    if (file.type === "chunk" && file.isEntry) add(name);
  return [...found];
}

function contentOf(file: Rolldown.OutputBundle[string] | undefined): string | Uint8Array {
  if (file === undefined) return "";
  return file.type === "chunk" ? file.code : file.source;
}

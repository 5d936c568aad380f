// Tars written by hand, so that they can hold what no well-meant program writes: links, names that
// lead outside, false sizes.

export type TarEntry = {
  readonly name: string;
  readonly content?: string | Buffer;
  /** The type flag: "0" a file, "1" and "2" links, "5" a folder, "x" further headers. */
  readonly type?: string;
  readonly linkName?: string;
  /** What the header says instead of the length of the content. */
  readonly size?: number;
};

/** With the two empty blocks at the end. */
export function rawTar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.map(entryOf), Buffer.alloc(1024)]);
}

/** Packs files with these contents into a tar archive. */
export function tarOf(files: Readonly<Record<string, string>>): Buffer {
  return rawTar(Object.entries(files).map(([name, content]) => ({ name, content })));
}

function entryOf({ name, content = "", type = "0", linkName = "", size }: TarEntry): Buffer {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(name, 0, 100);
  header.write("0000644\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  header.write(`${(size ?? bytes.length).toString(8).padStart(11, "0")}\0`, 124);
  header.write("00000000000\0", 136);
  header.write("        ", 148);
  header.write(type, 156);
  header.write(linkName, 157, 100);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
}

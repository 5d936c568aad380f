// Zips for tests, also those that no packer writes: names, modes, sizes and methods are as given.
import { crc32, deflateRawSync } from "node:zlib";

export type ZipEntry = {
  readonly name: string;
  readonly content?: string | Buffer;
  /** With the type of the file; by default a regular file. */
  readonly mode?: number;
  /** What the zip says, whatever is true. */
  readonly claimedSize?: number;
  readonly flags?: number;
  readonly method?: number;
};

/** The bytes of a zip. */
export function rawZip(entries: readonly ZipEntry[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { method = 8, mode = 0o100644, flags = 0x800 } = entry;
    const content = Buffer.from(entry.content ?? "");
    const data = method === 8 ? deflateRawSync(content) : content;
    const name = Buffer.from(entry.name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(flags, 2);
    common.writeUInt16LE(method, 4);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(entry.claimedSize ?? content.length, 18);
    common.writeUInt16LE(name.length, 22);
    const head = Buffer.concat([Buffer.from("PK\x03\x04"), common, name, data]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((mode << 16) >>> 0, 6);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from("PK\x01\x02"), Buffer.from([20, 3]), common, rest, name);
    files.push(head);
    offset += head.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...files, listed, Buffer.from("PK\x05\x06"), end]);
}

/** Packs regular files, by path, into a zip archive. */
export function zipOf(files: Readonly<Record<string, string>>): Buffer {
  return rawZip(Object.entries(files).map(([name, content]) => ({ name, content })));
}

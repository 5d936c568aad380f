// The Git LFS server of a git host in tests: for `intercept` of the git server. It answers the
// batch API, and gives the files.
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

type Header = Readonly<Record<string, string>>;
type Asked = { readonly oid: string; readonly size: number };

export type LfsServer = {
  readonly intercept: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Stores a file and returns its pointer; `sent`: what is sent in its place. */
  add(content: Buffer | string, sent?: Buffer | string): string;
  /** Where files are said to be; by default on the same host, with a header of their own. */
  placeOf: (oid: string) => { readonly href: string; readonly header?: Header };
  /** Where the host sends whoever asks for a file; null: it has them itself. */
  redirect: string | null;
  /** Each request: its path, and the header with which it came. */
  readonly requests: { readonly path: string; readonly authorization: string | undefined }[];
  /** What each batch asked for. */
  readonly batches: (readonly Asked[])[];
};

const filePath = "/lfs-files/";

/** `originOf`: of the git host, which is known once it listens. */
export function lfsServer(originOf: () => string, credentials?: string): LfsServer {
  const stored = new Map<string, Buffer>();
  const expected =
    credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`;
  const server: LfsServer = {
    redirect: null,
    requests: [],
    batches: [],
    placeOf: (oid) => ({ href: `${originOf()}${filePath}${oid}` }),
    add(content, sent = content) {
      const oid = createHash("sha256").update(content).digest("hex");
      stored.set(oid, Buffer.from(sent));
      return `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${Buffer.byteLength(content)}\n`;
    },
    intercept(request, response) {
      const { url: path = "" } = request;
      const isBatch = path.endsWith(".git/info/lfs/objects/batch");
      if (!isBatch && !path.startsWith(filePath)) return false;
      const { authorization } = request.headers;
      server.requests.push({ path, authorization });
      if (expected !== undefined && authorization !== expected) response.writeHead(401).end();
      else if (isBatch) void answerBatch(server, stored, request, response);
      else if (server.redirect !== null)
        response.writeHead(302, { location: server.redirect }).end();
      else response.end(stored.get(path.slice(filePath.length)));
      return true;
    },
  };
  return server;
}

async function answerBatch(
  { batches, placeOf }: LfsServer,
  stored: ReadonlyMap<string, Buffer>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { objects } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as {
    objects: Asked[];
  };
  batches.push(objects);
  const answered = objects.map(({ oid, size }) =>
    stored.has(oid)
      ? { oid, size, actions: { download: placeOf(oid) } }
      : { oid, size, error: { code: 404, message: "gone" } },
  );
  response.writeHead(200, { "content-type": "application/vnd.git-lfs+json" });
  response.end(JSON.stringify({ transfer: "basic", objects: answered }));
}

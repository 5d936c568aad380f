// Replaces pointers of Git LFS with the files that they stand for: asks the git host of each
// repository where the files are, and downloads them. A downloaded file must have the size and the
// digest that its pointer names. `git.ts` calls this if the app's settings ask for Git LFS.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { constants, open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { BuildFailed } from "#drivers/builder.ts";
import { boundedText } from "#lib/bounded-text.ts";
import { isDiskFull } from "#lib/disk-full.ts";
import { isObject } from "#lib/is-object.ts";
import { OutwardAgents } from "#lib/outward-agents.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { makeNameLookup } from "#lib/outward-names.ts";
import { OutwardRefused, reasonOf } from "#lib/outward-reasons.ts";
import { basicAuthorization, type GitRun } from "./git-command.ts";
import { isRedirect, sendRequest } from "./git-lfs-request.ts";

/**
 * A repository whose files are in the app's folder. `at` is the path of these files in that folder,
 * "" for the app's own repository.
 */
export type LfsRepository = {
  readonly at: string;
  /** The repository's name, for messages. */
  readonly repository: string;
  readonly remote: NonNullable<GitRun["remote"]>;
};

/**
 * A file that contains a pointer, by its path in the app's folder. `oid` and `size` are the SHA-256
 * digest and the bytes of the file that the pointer stands for.
 */
export type Pointer = { readonly path: string; readonly oid: string; readonly size: number };

type LfsRequest = {
  readonly appDir: string;
  readonly pointers: readonly Pointer[];
  /** The app's own repository, and those of its submodules. */
  readonly repositories: readonly LfsRepository[];
  /** Checks addresses that are not the git host's own. */
  readonly guard: OutwardGuard;
  readonly signal: AbortSignal;
};

/** Where a host offers a file, and the headers to send there. The LFS API calls this an action. */
type Action = { readonly href: string; readonly headers: Readonly<Record<string, string>> };

/** The whole text of a pointer. Numbers of 15 digits are exact in JavaScript. */
const pointerForm =
  /^version https:\/\/git-lfs\.github\.com\/spec\/v1\noid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n?$/;
const mediaType = "application/vnd.git-lfs+json";
/** The maximum number of objects that hosts accept in one request. */
const batchMax = 100;
/** The maximum size of a host's answer. A batch needs far less: an object takes about 1 kB. */
const answerBytesMax = 2_000_000;
/** The maximum number of redirects. Hosts redirect once, to the storage of their files. */
const redirectsMax = 3;
/** The maximum number of connections to one address. */
const perReceiverMax = 8;
/** The maximum number of headers that an action may ask for; further ones are not sent. */
const headersMax = 20;
const headerLengthMax = 8_000;
/**
 * Headers that belong to one connection or that only the client can know; a server may not set
 * them.
 */
const reservedHeaders = new Set([
  "host",
  "connection",
  "content-length",
  "transfer-encoding",
  "upgrade",
  "te",
  "trailer",
]);

/**
 * The guard for the git hosts themselves, which allows all addresses: the operator chose the hosts,
 * and they may be on a private network.
 */
const anywhere = new OutwardGuard({ allow: ["0.0.0.0/0", "::/0"] });

/** Parses the text of a file; null: it is no pointer. */
function readPointer(path: string, text: string): Pointer | null {
  const [, oid, size] = pointerForm.exec(text) ?? [];
  return oid === undefined ? null : { path, oid, size: Number(size) };
}

/**
 * Downloads the files of all pointers. Rejects with a `BuildFailed` that names the file, or the
 * repository whose host failed.
 */
export async function fetchLfs(request: LfsRequest): Promise<void> {
  const common = { lookup: makeNameLookup(), perReceiverMax };
  const hostAgents = new OutwardAgents({ ...common, guard: anywhere });
  const otherAgents = new OutwardAgents({ ...common, guard: request.guard });
  try {
    // A file belongs to the deepest repository whose folder contains it.
    const deepestFirst = request.repositories.toSorted((a, b) => b.at.length - a.at.length);
    const groups = Map.groupBy(request.pointers, ({ path }) =>
      deepestFirst.find(({ at }) => at === "" || path.startsWith(`${at}/`)),
    );
    for (const [repository, pointers] of groups) {
      // Never happens: the app's own repository, whose `at` is "", contains all files.
      if (repository === undefined) continue;
      await new LfsDownload({ ...request, hostAgents, otherAgents, from: repository }).fetch(
        pointers,
      );
    }
  } finally {
    hostAgents.close();
    otherAgents.close();
  }
}

type LfsDownloadParts = LfsRequest & {
  /** `hostAgents` is for the git host itself, `otherAgents` for the addresses that it names. */
  readonly hostAgents: OutwardAgents;
  readonly otherAgents: OutwardAgents;
  readonly from: LfsRepository;
};

class LfsDownload {
  readonly #parts: LfsDownloadParts;
  /** Where the host is asked for actions. */
  readonly #base: URL;
  readonly #authorization: Readonly<Record<string, string>>;

  constructor(parts: LfsDownloadParts) {
    this.#parts = parts;
    const { url, credential } = parts.from.remote;
    if (!url.protocol.startsWith("http")) {
      const why = `${parts.from.repository} is fetched over ${url.protocol}, and files of Git LFS only over http or https.`;
      throw new BuildFailed(
        `${why} Ask the operator for an https template of the host, or set gitLfs to false.`,
      );
    }
    // A host has the LFS API below the repository's address with `.git` at its end.
    this.#base = new URL(
      `${url.url.replace(/\/$/, "").replace(/\.git$/, "")}.git/info/lfs/objects/batch`,
    );
    const header = basicAuthorization(url, credential);
    this.#authorization = header === null ? {} : { Authorization: header };
  }

  async fetch(pointers: readonly Pointer[]): Promise<void> {
    // Each group has the pointers to one object, which is downloaded once and then copied.
    const groups = [...Map.groupBy(pointers, ({ oid }) => oid).values()];
    for (let start = 0; start < groups.length; start += batchMax) {
      const batch = groups.slice(start, start + batchMax);
      // One pointer of each group stands for its object.
      const actions = await this.#askForActions(batch.flatMap((group) => group.slice(0, 1)));
      for (const [first, ...copies] of batch) {
        if (first === undefined) continue;
        await this.#download(first, actions);
        const { appDir } = this.#parts;
        for (const { path } of copies)
          await store(createReadStream(join(appDir, first.path)), {
            pointer: first,
            path: join(appDir, path),
          });
      }
    }
  }

  /**
   * Asks the host where it has the files of these pointers. Returns the answers by oid: an action,
   * or a text that says why the host has no such file.
   */
  async #askForActions(
    pointers: readonly Pointer[],
  ): Promise<ReadonlyMap<string, Action | string>> {
    const objects = pointers.map(({ oid, size }) => ({ oid, size }));
    const body = JSON.stringify({
      operation: "download",
      transfers: ["basic"],
      hash_algo: "sha256",
      objects,
    });
    const headers = { Accept: mediaType, "Content-Type": mediaType, ...this.#authorization };
    const { hostAgents, from, signal } = this.#parts;
    const agent = hostAgents.of(this.#base.protocol);
    const failed = (why: string): BuildFailed =>
      new BuildFailed(
        `The git host of ${from.repository} does not say where its Git LFS files are: ${why}.`,
      );
    try {
      const answer = await sendRequest(this.#base, {
        method: "POST",
        headers,
        body,
        agent,
        signal,
      });
      const tooLong = (): Error =>
        new OutwardRefused(`its answer is longer than ${answerBytesMax} bytes`);
      const text = await boundedText(answer, answerBytesMax, tooLong);
      if (answer.statusCode === 200) return readBatch(JSON.parse(text));
      // Hosts use each of these statuses where a credential may be missing.
      const hint = [401, 403, 404].includes(answer.statusCode ?? 0)
        ? ` (is Git LFS on there, and may the project's git credential read it? PUT …/git-credentials/{host})`
        : "";
      throw failed(`it answered ${answer.statusCode}${hint}`);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BuildFailed) throw error;
      throw failed(error instanceof SyntaxError ? "its answer is not JSON" : reasonOf(error));
    }
  }

  async #download(pointer: Pointer, actions: ReadonlyMap<string, Action | string>): Promise<void> {
    const { signal, from } = this.#parts;
    const action = actions.get(pointer.oid) ?? "its answer does not mention the file";
    const failed = (why: string): BuildFailed =>
      new BuildFailed(
        `${pointer.path} cannot be fetched from the Git LFS of ${from.repository}: ${why}.`,
      );
    if (typeof action === "string") throw failed(action);
    try {
      await this.#receive(pointer, action);
    } catch (error) {
      signal.throwIfAborted();
      if (isDiskFull(error)) throw error;
      // `failed` sets the period at the end.
      throw failed(reasonOf(error).replace(/\.$/, ""));
    }
  }

  /** Downloads the file of a pointer from where its action says, following redirects. */
  async #receive(pointer: Pointer, { href, headers }: Action): Promise<void> {
    const { guard, hostAgents, otherAgents, signal, appDir } = this.#parts;
    let address = href;
    let sentHeaders = headers;
    for (let redirects = 0; redirects <= redirectsMax; redirects++) {
      const isGitHost = URL.parse(address)?.origin === this.#base.origin;
      const target = (isGitHost ? anywhere : guard).read(address);
      if ("problem" in target)
        throw new OutwardRefused(`its address is not allowed: ${target.problem}`);
      const { url } = target;
      if (this.#base.protocol === "https:" && url.protocol !== "https:")
        throw new OutwardRefused("it is not offered over https");
      const agent = (isGitHost ? hostAgents : otherAgents).of(url.protocol);
      const hasAuthorization = Object.keys(sentHeaders).some(
        (name) => name.toLowerCase() === "authorization",
      );
      // The git host gets the project's credential, unless its action has an authorization already.
      const authorization = isGitHost && !hasAuthorization ? this.#authorization : {};
      const answer = await sendRequest(url, {
        method: "GET",
        headers: { ...sentHeaders, ...authorization },
        body: "",
        agent,
        signal,
      });
      if (isRedirect(answer)) {
        answer.destroy();
        const next = new URL(answer.headers.location ?? "", url);
        // Headers that were meant for one host are not sent to another.
        if (next.origin !== url.origin) sentHeaders = {};
        address = next.href;
        continue;
      }
      if (answer.statusCode !== 200) {
        answer.destroy();
        throw new OutwardRefused(`${url.host} answered ${answer.statusCode}`);
      }
      return await store(answer, { pointer, path: join(appDir, pointer.path) });
    }
    throw new OutwardRefused(`there are more than ${redirectsMax} redirects`);
  }
}

/**
 * The action of each object by its oid, or why it has none. Ignores malformed parts of an answer.
 */
function readBatch(answer: unknown): Map<string, Action | string> {
  const objects =
    isObject(answer) && Array.isArray(answer["objects"]) ? (answer["objects"] as unknown[]) : [];
  const byOid = new Map<string, Action | string>();
  for (const object of objects) {
    if (!isObject(object) || typeof object["oid"] !== "string") continue;
    // The compiler forgets that `oid` is text, since that was checked on `object`.
    const { oid, error, actions } = object;
    const download = isObject(actions) ? actions["download"] : undefined;
    if (isObject(error)) byOid.set(oid as string, `it has no such file (${Number(error["code"])})`);
    else if (isObject(download) && typeof download["href"] === "string")
      byOid.set(oid as string, {
        href: download["href"],
        headers: readHeaders(download["header"]),
      });
  }
  return byOid;
}

/** The headers of an action that may be sent: short ones, of printable ASCII characters. */
function readHeaders(headers: unknown): Record<string, string> {
  const usable = Object.entries(isObject(headers) ? headers : {}).filter(
    ([name, value]) =>
      /^[A-Za-z0-9-]{1,100}$/.test(name) &&
      !reservedHeaders.has(name.toLowerCase()) &&
      typeof value === "string" &&
      value.length <= headerLengthMax &&
      /^[\x20-\x7e]*$/.test(value),
  );
  return Object.fromEntries(usable.slice(0, headersMax)) as Record<string, string>;
}

/** Replaces a pointer with its file, which keeps the mode of the file that had the pointer. */
async function store(
  answer: AsyncIterable<Buffer> & { destroy(): unknown },
  { pointer, path }: { readonly pointer: Pointer; readonly path: string },
): Promise<void> {
  const digest = createHash("sha256");
  // O_NOFOLLOW: the file must be the one that had the pointer, not the target of a link.
  const file = await open(path, constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
  let bytes = 0;
  try {
    for await (const chunk of answer) {
      bytes += chunk.length;
      if (bytes > pointer.size)
        throw new OutwardRefused(`it is larger than the ${pointer.size} bytes of its pointer`);
      digest.update(chunk);
      // On an open file, this writes after the chunk before it.
      await file.writeFile(chunk);
    }
  } finally {
    answer.destroy();
    await file.close();
  }
  if (bytes !== pointer.size)
    throw new OutwardRefused(`it has ${bytes} bytes, and its pointer says ${pointer.size}`);
  if (digest.digest("hex") !== pointer.oid)
    throw new OutwardRefused("what was sent has another digest than its pointer says");
}

/**
 * The pointers among the files with these names. `checkTime` throws after the deadline of the
 * fetch.
 */
export async function readPointers(
  appDir: string,
  names: readonly string[],
  checkTime: () => void,
): Promise<Pointer[]> {
  const pointers: Pointer[] = [];
  for (const name of names) {
    checkTime();
    const pointer = readPointer(name, await readFile(join(appDir, name), "utf8"));
    if (pointer !== null) pointers.push(pointer);
  }
  return pointers;
}

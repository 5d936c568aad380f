// A proxy with an encrypted port, and clients that speak HTTP/2 to it.
import { once } from "node:events";
import {
  connect,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Certificates } from "#proxy/certificates.ts";
import { temporaryFolder } from "./folder.ts";
import { bedTokens, helloPath, openProxyBed, type BedOptions, type ProxyBed } from "./proxy-bed.ts";
import { TestAuthority } from "./tls-files.ts";

/** A proxy bed with an encrypted port. */
export type TlsBed = ProxyBed & {
  readonly authority: TestAuthority;
  /** A new HTTP/2 connection, which ends with the test. */
  session(): ClientHttp2Session;
};

/** Opens the bed; its certificate is for `localhost` and 127.0.0.1. */
export async function openTlsBed(
  t: TestContext,
  { tls, ...options }: Omit<BedOptions, "tls"> & { tls?: Partial<BedOptions["tls"]> } = {},
): Promise<TlsBed> {
  const authority = new TestAuthority(temporaryFolder(t, "tls"));
  const files = authority.sign("own", ["localhost", "*.localhost", "127.0.0.1"]);
  const certificates = new Certificates([files], { log: silentLog, clock: systemClock });
  const bed = await openProxyBed(t, {
    ...options,
    tls: { certificates, redirect: null, ...tls },
  });
  return {
    ...bed,
    authority,
    session: () => {
      const session = connect(`https://localhost:${bed.tlsPort}`, { ca: authority.certificate });
      session.on("error", () => undefined);
      t.after(() => session.destroy());
      return session;
    },
  };
}

/** What a stream has got. */
export class StreamAnswer {
  readonly stream: ClientHttp2Stream;
  text = "";
  headers: IncomingHttpHeaders = {};
  trailers: IncomingHttpHeaders = {};
  informations: IncomingHttpHeaders[] = [];
  isComplete = false;
  isClosed = false;
  error: Error | null = null;

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream;
    stream.setEncoding("latin1");
    stream.on("headers", (headers) => this.informations.push(headers));
    stream.on("response", (headers) => (this.headers = headers));
    stream.on("trailers", (headers) => (this.trailers = headers));
    stream.on("data", (chunk: string) => (this.text += chunk));
    stream.on("end", () => (this.isComplete = true));
    stream.on("close", () => (this.isClosed = true));
    stream.on("error", (error) => (this.error = error));
  }

  get status(): number {
    return Number(this.headers[":status"]);
  }

  /** Resolves once the stream is closed. */
  async closed(): Promise<this> {
    if (!this.isClosed) await once(this.stream, "close").catch(() => undefined);
    return this;
  }
}

type CallFields = Readonly<Record<string, string | number | string[] | null>> & {
  readonly body?: string | null;
};

/** Begins a call of the bed's app with the project's token. `body` null: it remains open. */
export function beginCall(
  session: ClientHttp2Session,
  path: string,
  { body = "", ...fields }: CallFields = {},
): StreamAnswer {
  const authorization = `Bearer ${bedTokens.project}`;
  const headers = { ":path": `${helloPath}${path}`, authorization, ...fields };
  const stream = session.request(headers as OutgoingHttpHeaders, { endStream: body === "" });
  if (body !== null && body !== "") stream.end(body);
  return new StreamAnswer(stream);
}

// Pebble, the authority that Let's Encrypt gives for tests of ACME, with a name server that answers
// every question with this machine. It refuses some requests at random, as real authorities may.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { temporaryFolder } from "./folder.ts";
import { freePorts } from "./free-ports.ts";
import { noOpenssl, TestAuthority } from "./tls-files.ts";
import { until } from "./until.ts";

const folder = process.env["SLIPWAY_TEST_PEBBLE"] ?? "";
const programs = {
  pebble: join(folder, "pebble"),
  names: join(folder, "pebble-challtestsrv"),
};
const starts = (program: string): boolean =>
  spawnSync(program, ["-help"], { timeout: 20_000 }).error === undefined;

/** Why tests with pebble are skipped; false: they run. */
export const noPebble =
  starts(programs.pebble) && starts(programs.names)
    ? noOpenssl
    : "pebble is not installed here: go install github.com/letsencrypt/pebble/v2/cmd/...@latest, and set SLIPWAY_TEST_PEBBLE to the folder of its programs";

export type PebbleOptions = {
  /** Whether it asks for an account that it knows already. */
  readonly externalAccount?: { readonly keyId: string; readonly hmacKey: string };
  /** How long its certificates are valid. */
  readonly validSeconds?: number;
};

/** A running pebble. */
export class Pebble {
  readonly directoryUrl: string;
  /** The file with the certificate of its own HTTPS. */
  readonly caFile: string;
  /** The address of its name server. */
  readonly nameServer: string;
  /** The port at which it looks for proofs over plain HTTP. */
  readonly httpPort: string;
  /** The port at which it looks for proofs in the handshake of TLS. */
  readonly tlsPort: string;
  /** The address of the name server's management. */
  readonly namesUrl: string;
  readonly #managementPort: string;
  readonly #output: () => string;

  constructor(
    at: Pick<Pebble, "directoryUrl" | "caFile" | "nameServer" | "httpPort" | "tlsPort">,
    more: { namesUrl: string; managementPort: string; output: () => string },
  ) {
    this.directoryUrl = at.directoryUrl;
    this.caFile = at.caFile;
    this.nameServer = at.nameServer;
    this.httpPort = at.httpPort;
    this.tlsPort = at.tlsPort;
    this.namesUrl = more.namesUrl;
    this.#managementPort = more.managementPort;
    this.#output = more.output;
  }

  /** Everything that it has printed. */
  output(): string {
    return this.#output();
  }

  /** The settings of a platform of this host name that gets its certificates here. */
  settings(host: string): Record<string, string> {
    return {
      SLIPWAY_PUBLIC_URL: `https://${host}:${this.tlsPort}`,
      SLIPWAY_PORT: this.httpPort,
      SLIPWAY_TLS_PORT: this.tlsPort,
      SLIPWAY_ACME_EMAIL: "operator@example.org",
      SLIPWAY_ACME_AGREE_TO_TERMS: "true",
      SLIPWAY_ACME_DIRECTORY: this.directoryUrl,
      SLIPWAY_ACME_CA_FILE: this.caFile,
    };
  }

  /** The certificate that signs what it issues. */
  async root(): Promise<string> {
    return await this.#ask("/roots/0");
  }

  /** What it knows of the certificate with this serial number, such as whether it is revoked. */
  async statusOf(serial: string): Promise<string> {
    const { Status: status } = JSON.parse(await this.#ask(`/cert-status-by-serial/${serial}`)) as {
      Status: string;
    };
    return status;
  }

  /** Changes the answers of the name server: a path of its management, and what to send there. */
  async changeNames(path: string, body: object): Promise<void> {
    const response = await fetch(`${this.namesUrl}/${path}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`the name server answered with ${response.status}`);
  }

  #ask(path: string): Promise<string> {
    const ca = readFileSync(this.caFile);
    const options = { host: "127.0.0.1", port: this.#managementPort, path, ca };
    return new Promise((resolve, reject) => {
      const asked = request(options, (response) => {
        response.setEncoding("utf8");
        let text = "";
        response.on("data", (piece: string) => (text += piece));
        response.on("end", () => resolve(text));
      });
      asked.on("error", reject);
      asked.end();
    });
  }
}

/** Starts it; it ends with the test. */
export async function startPebble(t: TestContext, options: PebbleOptions = {}): Promise<Pebble> {
  const ownFolder = temporaryFolder(t, "pebble");
  const authority = new TestAuthority(ownFolder);
  const { certificateFile, keyFile } = authority.sign("pebble", ["localhost", "127.0.0.1"]);
  const ports = await freePorts(6);
  const [port = "", managementPort = "", namePort = "", namesPort = ""] = ports;
  const [httpPort = "", tlsPort = ""] = ports.slice(4);
  const { externalAccount, validSeconds = 7_776_000 } = options;
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate: certificateFile,
    privateKey: keyFile,
    httpPort: Number(httpPort),
    tlsPort: Number(tlsPort),
    ocspResponderURL: "",
    externalAccountBindingRequired: externalAccount !== undefined,
    externalAccountMACKeys:
      externalAccount === undefined ? {} : { [externalAccount.keyId]: externalAccount.hmacKey },
    retryAfter: { authz: 1, order: 1 },
    keyAlgorithm: "ecdsa",
    profiles: { default: { description: "default", validityPeriod: validSeconds } },
  };
  const configFile = join(ownFolder, "pebble.json");
  writeFileSync(configFile, JSON.stringify({ pebble }));
  const nameServer = `127.0.0.1:${namePort}`;
  const none = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""];
  const own = ["-dnsserver", nameServer, "-management", `127.0.0.1:${namesPort}`];
  let output = "";
  const run = (program: string, parameters: readonly string[]): void => {
    const child = spawn(program, parameters, {
      env: { ...process.env, PEBBLE_VA_NOSLEEP: "1", PEBBLE_AUTHZREUSE: "0" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    t.after(() => child.kill("SIGKILL"));
  };
  run(programs.names, [...none, ...own]);
  run(programs.pebble, ["-config", configFile, "-dnsserver", nameServer]);
  const started = new Pebble(
    {
      directoryUrl: `https://127.0.0.1:${port}/dir`,
      caFile: authority.file,
      nameServer,
      httpPort,
      tlsPort,
    },
    { namesUrl: `http://127.0.0.1:${namesPort}`, managementPort, output: () => output },
  );
  await until("pebble answers", async () =>
    started.root().then(
      (text) => text.includes("BEGIN CERTIFICATE"),
      () => false,
    ),
  );
  return started;
}

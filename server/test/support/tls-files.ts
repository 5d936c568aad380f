// Certificates for tests, made with openssl: a private authority, and what it signs.
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CertificateFiles } from "#proxy/certificates.ts";

/** Why tests with certificates are skipped; false: they run. */
export const noOpenssl =
  spawnSync("openssl", ["version"], { timeout: 10_000 }).status === 0
    ? false
    : "openssl is not installed here";

const run = (folder: string, args: readonly string[]): void => {
  execFileSync("openssl", args, { cwd: folder, stdio: "ignore", timeout: 30_000 });
};
const newKey = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/** An authority whose files are in one folder. */
export class TestAuthority {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    const subject = ["-subj", "/CN=test authority", "-days", "30"];
    run(folder, ["req", "-x509", ...subject, ...newKey, "-keyout", "ca.key", "-out", "ca.pem"]);
  }

  /** The certificate that clients trust. */
  get certificate(): string {
    return readFileSync(this.file, "utf8");
  }

  /** The file of that certificate. */
  get file(): string {
    return join(this.#folder, "ca.pem");
  }

  /** Signs a new certificate for these names; the files are called `label`. */
  sign(label: string, names: readonly string[], days = 30): CertificateFiles {
    const folder = this.#folder;
    const key = `${label}.key`;
    const csr = `${label}.csr`;
    const pem = `${label}.pem`;
    const alternatives = names.map((name) =>
      /^[\d.]+$/.test(name) ? `IP:${name}` : `DNS:${name}`,
    );
    writeFileSync(join(folder, `${label}.ext`), `subjectAltName=${alternatives.join(",")}\n`);
    run(folder, ["req", "-new", "-subj", `/CN=${label}`, ...newKey, "-keyout", key, "-out", csr]);
    const authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    const made = ["-days", String(days), "-extfile", `${label}.ext`, "-out", pem];
    run(folder, ["x509", "-req", "-in", csr, ...authority, ...made]);
    return { certificateFile: join(folder, pem), keyFile: join(folder, key) };
  }
}

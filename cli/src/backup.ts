// `slipway backup` and `slipway restore`: back up the platform of this machine while it runs, and
// make a platform again from a backup. The platform's own program does the work.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fieldsOf, textOf, type Fields } from "./answer.ts";
import { command, type Given } from "./command.ts";
import { platformEnvironment, trustedInstallation, trustOption } from "./installation.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { misuse, Refused } from "./refused.ts";
import { bytesText } from "./sizes.ts";

/** Makes a backup, or the key for backups. */
export const backup = command({
  name: "backup",
  about: `Back up the platform of this machine into a new file, while it runs or stands: its database, also one of your own
(SLIPWAY_DATABASE_URL), its keys, and the files of the data folder (SLIPWAY_DATA_DIR). Everything that was accepted before the
backup began is in it. It is encrypted for a public key; only the private key opens it, so keep that elsewhere.`,
  examples: [
    "backup --new-key backup.key",
    "backup monday.age --public-key age1…",
    "backup s3://our-backups/slipway/monday.age",
  ],
  operands: [
    {
      name: "file",
      about: "The file to write, or an address such as s3://bucket/monday.age.",
      isOptional: true,
    },
  ],
  options: {
    "public-key": {
      value: "<age1…>",
      about: "The public key; by default those of SLIPWAY_BACKUP_PUBLIC_KEYS.",
    },
    "new-key": {
      value: "<file>",
      about:
        "Make no backup, but a key: writes the private one to this file, shows the public one.",
    },
    ...trustOption,
  },
  async run(given, machine) {
    const file = given.operand("file");
    const keyFile = given.text("new-key");
    if ((file === "") === (keyFile === undefined))
      throw misuse("Give either a file for the backup, or --new-key with a file for a new key.");
    if (keyFile !== undefined) {
      const made = await runProgram(given, machine, ["new-key", resolve(keyFile)]);
      output(given, machine, made, () => {
        machine.print(textOf(made, "publicKey"));
        machine.tell(
          `The private key is in ${textOf(made, "file")}: keep it where a loss of this machine does not reach it. Without it no backup can be opened.`,
        );
      });
      return;
    }
    const publicKey = given.text("public-key");
    const keys = publicKey === undefined ? [] : ["--public-key", publicKey];
    const made = await runProgram(given, machine, ["back-up", addressOf(file), ...keys]);
    output(given, machine, made, () =>
      machine.tell(
        `Backed up everything until ${textOf(made, "at")} into ${textOf(made, "address")} (${bytesText(Number(made["bytes"]))}).`,
      ),
    );
  },
});

/** Restores a backup, or checks whether it could be. */
export const restore = command({
  name: "restore",
  about: `Restore a backup into the data folder (SLIPWAY_DATA_DIR), and into the database of your own if you use one
(SLIPWAY_DATABASE_URL). Both must be empty. The whole backup is read before anything is written. Afterwards start the platform with
slipway up. Never run the old platform again then: both would process the same runs.`,
  examples: ["restore monday.age --key backup.key", "restore monday.age --key backup.key --check"],
  operands: [{ name: "file", about: "The backup: a file, or an address s3://bucket/name." }],
  options: {
    key: { value: "<file>", about: "The file with the private key. Required." },
    check: { value: null, about: "Only read the backup to its end, and restore nothing." },
    ...trustOption,
  },
  async run(given, machine) {
    const keyFile = given.text("key");
    if (keyFile === undefined)
      throw misuse("--key is missing: the file with the private key of the backup.");
    const work = given.has("check") ? "check" : "restore";
    const words = [work, addressOf(given.operand("file")), "--key", resolve(keyFile)];
    const found = await runProgram(given, machine, words);
    const about = `everything until ${textOf(found, "at")}, of version ${textOf(found, "version")}`;
    output(given, machine, found, () =>
      machine.tell(
        work === "check"
          ? `The backup is whole: ${about}.`
          : `Restored ${about}. Start the platform: slipway up`,
      ),
    );
  },
});

/** A path is relative to the working folder, which is not that of the program. */
function addressOf(file: string): string {
  return file.startsWith("s3:") ? file : resolve(file);
}

/** What the program has printed. Throws `Refused` after it has said why it failed. */
async function runProgram(
  given: Given,
  machine: Machine,
  words: readonly string[],
): Promise<Fields> {
  const installation = await trustedInstallation(given, machine);
  if (!existsSync(installation.node))
    throw new Refused("This platform was never set up. Set it up and start it: slipway up");
  const { status, stdout } = spawnSync(installation.node, [...installation.backup, ...words], {
    cwd: installation.cwd,
    env: platformEnvironment(machine, installation),
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
  });
  if (status !== 0) throw new Refused("It failed; see above.");
  return fieldsOf(JSON.parse(stdout));
}

// The environment of a file run (its packages and commands) as the text of a TOML file. Clients
// keep its digest, which is the compressed text: nothing is stored until a file runs.
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { stringify } from "smol-toml";
import { z } from "zod";
import { Fault } from "#lib/fault.ts";
import { isTooDeep, jsonTooDeep } from "#lib/json-depth.ts";

/** The maximum length of a digest. The form of the field `imageDigest` has the same limit. */
const digestLengthMax = 8_000;
/**
 * The maximum length of a text. It needs its own limit, since repeated text compresses so well that
 * a short digest could stand for megabytes.
 */
const textBytesMax = 262_144;

// The names of packages, each with its version.
const versions = z.record(z.string(), z.string()).nullish();
// Commands in base64; no file needs as many as the limit.
const commands = z.array(z.base64()).max(1_000).nullish();
const requestForm = z.strictObject({
  dependencies: z.strictObject({ pip: versions, conda: versions, apt: versions }).nullish(),
  preBuildCommands: commands,
  shellCommands: commands,
  baseImageURI: z.string().nullish(),
});

/**
 * The TOML text for a request in JSON. Throws `Fault("malformed" | "invalid")`; the names and
 * versions of packages are not checked.
 */
export function environmentText(body: Buffer): string {
  const request = requestForm.safeParse(parseJson(body));
  if (!request.success) {
    const [issue] = request.error.issues;
    const field =
      issue === undefined || issue.path.length === 0 ? "The body" : issue.path.join(".");
    throw new Fault(
      "invalid",
      `${field} is not valid: ${issue?.message ?? "it has another form than the route's"}.`,
    );
  }
  const { dependencies, preBuildCommands, shellCommands, baseImageURI } = request.data;
  // An empty text counts as no base image.
  const baseImage = baseImageURI ? { docker_base_image_url: baseImageURI } : {};
  return stringify({
    cerebrium: {
      deployment: {
        ...baseImage,
        pre_build_commands: decodeLines(preBuildCommands),
        shell_commands: decodeLines(shellCommands),
      },
      // TOML has no null, so absent tables are left out.
      dependencies: Object.fromEntries(
        Object.entries(dependencies ?? {}).filter(([, table]) => table),
      ),
    },
  });
}

/** The digest of a text. Throws `Fault("too_large")`. */
export function digestOf(text: string): string {
  const digest = deflateRawSync(text).toString("base64url");
  if (digest.length <= digestLengthMax && Buffer.byteLength(text) <= textBytesMax) return digest;
  throw new Fault(
    "too_large",
    `The packages and commands of the file are too long: compressed they have ${digest.length} characters, and at most ${digestLengthMax} are possible (${textBytesMax} bytes before that). Shorten them, or deploy an app instead.`,
  );
}

/**
 * The text that a digest stands for. Throws `Fault("invalid")` for a digest that is not a
 * compressed text such as `digestOf` makes.
 */
export function textOfDigest(digest: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(
      inflateRawSync(Buffer.from(digest, "base64url"), { maxOutputLength: textBytesMax }),
    );
  } catch (error) {
    const message =
      "imageDigest is not a digest that …/base-image has returned: request a new one there, or leave it out.";
    throw new Fault("invalid", message, { cause: error });
  }
}

function parseJson(body: Buffer): unknown {
  const text = body.toString();
  if (isTooDeep(text)) throw new Fault("malformed", jsonTooDeep);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Fault("malformed", "The body is not JSON.", { cause: error });
  }
}

/** The commands, which clients send in base64. */
function decodeLines(lines: readonly string[] | null | undefined): string[] {
  return (lines ?? []).map((line) => Buffer.from(line, "base64").toString());
}

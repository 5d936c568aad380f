// Whether the platform of this machine is reached at its public URL (SLIPWAY_PUBLIC_URL), for
// `slipway doctor` and `slipway up`. It sends one request there, without a token, and one to the
// platform itself: both must answer with the same public keys.
import { localUrlOf, readBootstrapFields } from "./bootstrap-file.ts";
import { textOf } from "./answer.ts";
import { boundedAnswer } from "./bounded-answer.ts";
import { errorMessage } from "./error-message.ts";
import { findInstallation } from "./installation.ts";
import type { Finding } from "./doctor-docker.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";

export type PlatformUrls = { readonly baseUrl: string; readonly localUrl: string };

/** Unlike `/healthz`, it tells one platform from another. */
const path = "/.well-known/jwks.json";
const answerMs = 3_000;
const answerBytesMax = 100_000;

/**
 * A finding of `slipway doctor`, never a fault: a router may keep this machine alone from its
 * public URL.
 */
export async function publicUrlCheck(machine: Machine): Promise<Finding> {
  const urls = readUrls(machine);
  if (urls === null) return { state: "ok", about: "not looked at: no platform was set up here" };
  if (urls.baseUrl === urls.localUrl)
    return { state: "ok", about: `SLIPWAY_PUBLIC_URL is not set: links lead to ${urls.localUrl}` };
  return await publicUrlFinding(urls);
}

/** Asks at both URLs, for three seconds at most. */
export async function publicUrlFinding({ baseUrl, localUrl }: PlatformUrls): Promise<Finding> {
  const [there, here] = await Promise.all([keysAt(baseUrl), keysAt(localUrl)]);
  if (!here.ok)
    return {
      state: "ok",
      about: `not looked at: the platform at ${plain(localUrl)} does not answer`,
    };
  const about = `SLIPWAY_PUBLIC_URL is ${plain(baseUrl)}`;
  const isSame = there.ok && there.ids.some((id) => here.ids.includes(id));
  if (isSame) return { state: "ok", about: `${about}, and the platform answers there` };
  const why = there.ok ? "another platform answers there" : there.why;
  return {
    state: "warning",
    about: `${about}, but from this machine ${why}`,
    todo: `Webhooks of git hosts, sign-ins and links use it: have it lead to ${plain(localUrl)}, or set SLIPWAY_PUBLIC_URL to the URL that does, and start the platform again (slipway down, then slipway up).`,
  };
}

type Answered = { readonly keys?: unknown };

type Keys =
  | { readonly ok: true; readonly ids: readonly unknown[] }
  | { readonly ok: false; readonly why: string };

async function keysAt(url: string): Promise<Keys> {
  try {
    const signal = AbortSignal.timeout(answerMs);
    const response = await fetch(`${url}${path}`, { signal, redirect: "manual" });
    const { status, headers } = response;
    if (status >= 300 && status < 400) {
      const target =
        URL.parse(headers.get("location") ?? "", url)?.href.replace(path, "") ?? "another address";
      return { ok: false, why: `it sends on to ${plain(target).slice(0, 200)}` };
    }
    const read = boundedAnswer(response, answerBytesMax).json() as Promise<Answered | null>;
    const answer = await read.catch(() => {
      signal.throwIfAborted();
      return null;
    });
    const keys = answer?.keys;
    if (status !== 200 || !Array.isArray(keys)) return { ok: false, why: notPlatform };
    return {
      ok: true,
      ids: keys.map((key: { kid?: unknown } | null) => key?.kid).filter((id) => id !== undefined),
    };
  } catch (error) {
    return { ok: false, why: whyNoAnswer(error) };
  }
}

const notPlatform = "something that is no platform answers there";

function whyNoAnswer(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError")
    return `nothing answers there within ${answerMs / 1000} s`;
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "its name has no address";
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (/CERT|SELF_SIGNED|ALTNAME|ISSUER/.test(code))
    return `its certificate is not accepted (${code})`;
  return `it is not reached (${plain(errorMessage(cause)).slice(0, 200)})`;
}

function readUrls(machine: Machine): PlatformUrls | null {
  try {
    const fields = readBootstrapFields(findInstallation(machine));
    return fields === null
      ? null
      : { baseUrl: textOf(fields, "baseUrl"), localUrl: localUrlOf(fields) };
  } catch {
    // Not readable for this user, or no installation.
    return null;
  }
}

// The types of callers in the access matrix and the expected answer to each: every kind and role,
// in the project and in another one, and all sorts of invalid tokens.
import { Agent, request } from "node:http";
import type { Route } from "@slipway/contract/route.ts";
import type { Permission, Role } from "@slipway/contract/words.ts";
import type { Json } from "./management-api.ts";
import type { Who } from "./access-table.ts";

/** What a valid token belongs to. `place`: whether the project in the path is its own. */
export type Bearer =
  | { readonly kind: "service_account"; readonly place: "here" | "elsewhere"; readonly role: Role }
  | {
      readonly kind: "chosen";
      readonly place: "here" | "elsewhere";
      readonly permissions: readonly Permission[];
    }
  | { readonly kind: "inference"; readonly place: "here" | "elsewhere" }
  | { readonly kind: "person"; readonly place: "here" | "elsewhere"; readonly role: Role | null }
  | { readonly kind: "operator" };

/** `bearer` null: the token is invalid, or there is none. */
export type MatrixCaller = {
  readonly name: string;
  readonly bearer: Bearer | null;
  /** The Authorization header. `isFresh`: of a new caller, because the call may end it. */
  authorization(isFresh: boolean): Promise<string | null> | string | null;
  /** The Cookie header. */
  readonly cookie?: string;
};

/** The checked parts of an answer. */
export type MatrixAnswer = { readonly status: number; readonly message: string };

/** `right`: anything except a refusal of the caller. */
export type Expected = "right" | 401 | 403 | 404;

/** The expected answer of the route to the caller. */
export function expectedOf(route: Route, who: Who, bearer: Bearer | null): Expected {
  if (who === "public") return "right";
  if (bearer === null) return 401;
  const namesProject = route.path.includes("{project_id}");
  if (bearer.kind === "operator") return who === "people" ? 403 : "right";
  if (
    namesProject &&
    (bearer.place === "elsewhere" || (bearer.kind === "person" && bearer.role === null))
  )
    return 404;
  if (bearer.kind === "inference" || who === "operators") return 403;
  if (who === "everybody") return "right";
  if (who === "people" || who === "makers") return bearer.kind === "person" ? "right" : 403;
  if (bearer.kind === "chosen")
    return bearer.permissions.includes(route.access as Permission) ? "right" : 403;
  return bearer.role !== null && who.includes(bearer.role) ? "right" : 403;
}

/**
 * The expected answer when the caller calls an app of the project, which requires a token made for
 * that.
 */
export function expectedOfAppCall(bearer: Bearer | null): Expected {
  if (bearer === null || bearer.kind === "operator" || bearer.kind === "person") return 401;
  if (bearer.place === "elsewhere") return 404;
  if (bearer.kind === "inference") return "right";
  if (bearer.kind === "chosen") return bearer.permissions.includes("apps.call") ? "right" : 403;
  return bearer.role === "billing" ? 403 : "right";
}

/** Null when the answer is as expected, else a description of it. */
export function mistake(expected: Expected, answer: MatrixAnswer): string | null {
  const { status, message } = answer;
  return isAsExpected(expected, answer) && (status < 400 || message !== "")
    ? null
    : `expected ${expected}, but it was ${status} ${message}`;
}

function isAsExpected(expected: Expected, answer: MatrixAnswer): boolean {
  if (expected === "right") return isRight(answer);
  return expected === 404 ? isForeign(answer) : answer.status === expected;
}

/**
 * The caller was authorized, even if the call then failed: its body is invalid for the route, and
 * routes have limits.
 */
function isRight(answer: MatrixAnswer): boolean {
  const { status } = answer;
  return (
    isNotDeployed(answer) ||
    (status < 500 && status !== 401 && status !== 403 && !isForeign(answer))
  );
}

/** The answer is the same as if the project, or the app in it, did not exist. */
function isForeign({ status, message }: MatrixAnswer): boolean {
  return status === 404 && /^There is no (?:such project|app .* in project)/.test(message);
}

function isNotDeployed({ status, message }: MatrixAnswer): boolean {
  return status === 503 && message.includes("has no release");
}

/** The request to send. */
export type MatrixCall = {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | null;
  readonly cookie?: string | undefined;
  /** Sent as JSON; undefined: no body. */
  readonly body?: unknown;
};

/** Keeps connections alive; `close()` ends them. */
export class MatrixClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });

  /** Sends one call. A refusal must contain a message. */
  send({ method, url, authorization, cookie, body }: MatrixCall): Promise<MatrixAnswer> {
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = {
      ...(authorization === null ? {} : { authorization }),
      ...(cookie === undefined ? {} : { cookie }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      "content-length": String(Buffer.byteLength(text)),
    };
    return new Promise((resolve, reject) => {
      const sent = request(url, { method, headers, agent: this.#agent }, (response) => {
        let answer = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => (answer += part));
        response.on("error", reject);
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, message: messageOf(answer) }),
        );
      });
      sent.on("error", reject);
      sent.end(text);
    });
  }

  /** Ends all connections. */
  close(): void {
    this.#agent.destroy();
  }
}

function messageOf(answer: string): string {
  try {
    const parsed: Json = JSON.parse(answer);
    return typeof parsed?.message === "string" ? parsed.message : "";
  } catch {
    // Not every answer is JSON.
    return "";
  }
}

// Answers each request whose path has no route for its method: with 405 and the allowed methods or,
// for OPTIONS, with 204 and the same list. A hook on requests that match no route does it, since a
// route for each of these methods would double the time that the API takes to start. Only where
// Fastify would choose the route of a wider path, a route refuses the method.
import { METHODS } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";

/**
 * All methods that Node's parser knows, so that each gets an answer. CONNECT is missing: Node emits
 * an event of its own for it.
 */
const methods = METHODS.filter((method) => method !== "CONNECT");
/** The methods that are named as allowed for a path that is not known. */
const usualMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

type KnownPath = {
  /** The path in Fastify's notation, with `:name` for parameters. */
  readonly url: string;
  /** Matches every path that `url` stands for. */
  readonly form: RegExp;
  /** The methods that this path has, in the order of the header `Allow`. */
  readonly allowed: readonly string[];
};

/**
 * Answers the requests whose path has no route for their method. The hooks that this class adds
 * throw `Fault("method_not_allowed")`.
 */
export class OtherMethods {
  readonly #api: FastifyInstance;
  readonly #paths: KnownPath[] = [];

  /** Must be created before any route is added. */
  constructor(api: FastifyInstance) {
    this.#api = api;
    for (const method of methods)
      if (!api.supportedMethods.includes(method)) api.addHttpMethod(method);
    // This is a hook, not the handler for unknown routes, since Fastify would read the body before
    // it calls that handler.
    api.addHook("onRequest", (request, reply, done) => {
      const isAnswered = request.is404 && this.#answer(request, reply);
      if (!isAnswered) done();
    });
  }

  /** To be called once for every path, with all its methods. */
  add(url: string, methodsOfPath: readonly string[]): void {
    // `:name` stands for one part of a path, and `*` for any rest; a path may end with a slash.
    const form = new RegExp(`^${url.replaceAll(/:\w+/g, "[^/]+").replace("*", ".*")}/?$`);
    const allowed = [
      ...methodsOfPath,
      ...(methodsOfPath.includes("GET") ? ["HEAD"] : []),
      "OPTIONS",
    ];
    const added = { url, form, allowed };
    this.#paths.push(added);
    // As in Fastify, a fixed path comes before a path with parameters that also matches.
    this.#paths.sort((one, other) => parametersOf(one) - parametersOf(other));
    // Either of two paths may be the wider one.
    for (const path of this.#paths) {
      this.#refuseMethodsOf(path, added);
      this.#refuseMethodsOf(added, path);
    }
  }

  /**
   * When `wider` has parameters and also matches the path `narrow`, Fastify would send requests of
   * `narrow` to the routes of `wider`. Adds refusing routes for the methods that only `wider` has.
   */
  #refuseMethodsOf(wider: KnownPath, narrow: KnownPath): void {
    const { url, allowed } = narrow;
    if (url === wider.url || !wider.form.test(url)) return;
    const refused = wider.allowed.filter((method) => !allowed.includes(method));
    if (refused.length === 0) return;
    const onRequest = (request: FastifyRequest, reply: FastifyReply): void =>
      refuse(request, reply, allowed);
    this.#api.route({ method: refused, url, onRequest, handler: () => undefined });
  }

  /**
   * Answers OPTIONS of a known path, and refuses what is not allowed. False for an unknown path
   * with a usual method, which gets 404 elsewhere.
   */
  #answer(request: FastifyRequest, reply: FastifyReply): boolean {
    const { method, url } = request;
    // Without the query, and with repeated slashes as one, as Fastify reads a path.
    const path = url.split("?", 1)[0]?.replaceAll(/\/+/g, "/") ?? "";
    const known = this.#paths.find(({ form }) => form.test(path));
    if (known === undefined) {
      if (usualMethods.includes(method)) return false;
      refuse(request, reply, usualMethods);
    }
    if (method !== "OPTIONS") refuse(request, reply, known.allowed);
    void reply.header("allow", known.allowed.join(", ")).code(204).send();
    return true;
  }
}

/** One more than the number of parameters in the path, which is enough to compare paths. */
function parametersOf({ url }: KnownPath): number {
  return url.split(/[:*]/).length;
}

/** Throws the refusal, and sets the header with the allowed methods. */
function refuse(
  { method }: FastifyRequest,
  reply: FastifyReply,
  allowed: readonly string[],
): never {
  const allow = allowed.join(", ");
  void reply.header("allow", allow);
  throw new Fault("method_not_allowed", `${method} is not allowed here; allowed: ${allow}.`);
}

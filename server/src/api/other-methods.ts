// What a known path answers to methods that it does not have: 405 with those that it allows, and
// OPTIONS with the same list. A hook does so for what no route takes: routes for all these methods
// would double the time that the API takes to start.
import { METHODS } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";

/**
 * All that node's parser knows, so that each is answered; it hands over CONNECT in a way of its
 * own.
 */
const methods = METHODS.filter((method) => method !== "CONNECT");
const usualMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** `url` is in Fastify's notation, and `form` matches the paths that it stands for. */
type KnownPath = {
  readonly url: string;
  readonly form: RegExp;
  readonly allowed: readonly string[];
};

/**
 * Answers methods that a path of the API does not have. Throws `Fault("method_not_allowed")` while
 * a request is answered.
 */
export class OtherMethods {
  readonly #api: FastifyInstance;
  readonly #paths: KnownPath[] = [];

  /** Before any route is added. */
  constructor(api: FastifyInstance) {
    this.#api = api;
    for (const method of methods)
      if (!api.supportedMethods.includes(method)) api.addHttpMethod(method);
    // Not in the handler of what is not found: Fastify reads the body first.
    api.addHook("onRequest", (request, reply, done) => {
      if (!request.is404 || !this.#answer(request, reply)) done();
    });
  }

  /** Call it for every path, with all its methods. */
  add(url: string, methodsOfPath: readonly string[]): void {
    const form = new RegExp(`^${url.replaceAll(/:\w+/g, "[^/]+").replace("*", ".*")}/?$`);
    const allowed = [
      ...methodsOfPath,
      ...(methodsOfPath.includes("GET") ? ["HEAD"] : []),
      "OPTIONS",
    ];
    const added = { url, form, allowed };
    this.#paths.push(added);
    // As in Fastify, a fixed part of a path comes before a parameter.
    this.#paths.sort((one, other) => parametersOf(one) - parametersOf(other));
    for (const other of this.#paths) {
      this.#separate(added, other);
      this.#separate(other, added);
    }
  }

  /**
   * A path that another with parameters matches too gets routes for the methods of that one, which
   * would be taken for it.
   */
  #separate({ url, allowed }: KnownPath, other: KnownPath): void {
    if (url === other.url || !other.form.test(url)) return;
    const method = other.allowed.filter((one) => !allowed.includes(one));
    const onRequest = (request: FastifyRequest, reply: FastifyReply): void =>
      refuse(request, reply, allowed);
    if (method.length > 0) this.#api.route({ method, url, onRequest, handler: () => undefined });
  }

  /** Whether it was answered. */
  #answer(request: FastifyRequest, reply: FastifyReply): boolean {
    const { method, url } = request;
    const path = url.split("?", 1)[0]?.replaceAll(/\/+/g, "/") ?? "";
    const known = this.#paths.find(({ form }) => form.test(path));
    if (known === undefined && usualMethods.includes(method)) return false;
    if (known === undefined || method !== "OPTIONS")
      refuse(request, reply, known?.allowed ?? usualMethods);
    void reply.header("allow", known.allowed.join(", ")).code(204).send();
    return true;
  }
}

function parametersOf({ url }: KnownPath): number {
  return url.split(/[:*]/).length;
}

function refuse(
  { method }: FastifyRequest,
  reply: FastifyReply,
  allowed: readonly string[],
): never {
  const allow = allowed.join(", ");
  void reply.header("allow", allow);
  throw new Fault("method_not_allowed", `${method} is not allowed here; allowed: ${allow}.`);
}

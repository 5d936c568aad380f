// The management API: a Fastify instance without its own listener. The platform awaits
// `instance.ready()`, then hands all requests that are not calls of apps to
// `instance.routing(request, response)`, and ends the instance with `close()`.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import {
  fastify,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import { takesUntypedJson } from "@slipway/contract/older-clients.ts";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import { Fault } from "#lib/fault.ts";
import { isTooDeep, jsonTooDeep } from "#lib/json-depth.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import { followersGate } from "./event-stream.ts";
import { faultOf, noJson, sendFault } from "./errors.ts";
import { handlersOf } from "./handlers.ts";
import { IgnoredNames } from "./older-clients.ts";
import { OtherMethods } from "./other-methods.ts";
import { addPages } from "./pages.ts";
import { addRoutes } from "./router.ts";
import { readUnreadBodies } from "./unread-bodies.ts";
import type { ApiParts, HandlerParts } from "./parts.ts";

/** The maximum size of a JSON body, in bytes. */
const bodyBytesMax = 1_048_576;
/** The longest parts of paths are names of secrets and hosts, with at most 253 characters. */
const pathPartLengthMax = 300;

/**
 * Creates the instance. Call `ready()` before its first use, and `close()` at the end, which also
 * ends live logs.
 */
export function createApi(parts: ApiParts): FastifyInstance {
  const { useCases, clock } = parts;
  const ending = new AbortController();
  const api = openInstance(parts);
  const others = new OtherMethods(api);
  api.addHook("preClose", (done) => {
    ending.abort(new Error("the platform is stopping"));
    done();
  });
  const stopping = AbortSignal.any([parts.stopping, ending.signal]);
  const limit = new RateLimit({ max: parts.deploysPerMinute, clock, text: tooManyDeployments });
  const requestLimit = new RateLimit({
    max: parts.requestsPerMinute,
    clock,
    text: tooManyRequests,
  });
  const ignored = new IgnoredNames(parts.log);
  // What stands later replaces a part of the same name, such as `stopping`.
  const all: HandlerParts = {
    ...useCases,
    ...parts,
    clock,
    stopping,
    limit,
    requestLimit,
    followers: followersGate(),
    ignored,
  };
  addRoutes(api, handlersOf(all), { parts: all, others });
  addPages(api, others, parts);
  return api;
}

/** Opens an instance that reads requests as the API does, and sets the headers of every answer. */
function openInstance({ trustedProxies, hstsSeconds, log, clock }: ApiParts): FastifyInstance {
  const setHeaders = (request: FastifyRequest, reply: FastifyReply): void => {
    void reply.header("x-request-id", request.id);
    setSecurityHeaders(reply);
    if (hstsSeconds > 0 && trustedProxies.peerOf(request.raw.socket).isEncrypted)
      void reply.header("strict-transport-security", `max-age=${hstsSeconds}`);
  };
  const api = fastify({
    logger: false,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    bodyLimit: bodyBytesMax,
    routerOptions: {
      ignoreDuplicateSlashes: true,
      ignoreTrailingSlash: true,
      maxParamLength: pathPartLengthMax,
    },
    frameworkErrors: (error: FastifyError, request, reply) => {
      setHeaders(request, reply);
      void sendFault(faultOf(error, request), reply, log);
    },
  });
  api.decorateRequest("clientAddress", {
    getter(this: FastifyRequest): string {
      const { socket, headers } = this.raw;
      // Node joins repeated headers of this name into one text, so this is never a list.
      return trustedProxies.peerOf(socket).originOf(headers["x-forwarded-for"]?.toString()).address;
    },
  });
  readJsonBodies(api);
  readForms(api);
  readUnreadBodies(api, clock);
  api.addHook("onRequest", (request, reply, done) => {
    setHeaders(request, reply);
    done();
  });
  return api;
}

/**
 * Accepts only JSON. An empty body counts as no body, even with a content type, because some
 * clients send a content type with every request.
 */
function readJsonBodies(api: FastifyInstance): void {
  api.removeAllContentTypeParsers();
  // The stream of a request without a body may have ended before Fastify reads it. Fastify would
  // wait for the end of that stream forever, so it gets an empty stream instead.
  api.addHook("preParsing", (_request, _reply, payload, done) => {
    done(null, payload.readable ? payload : Readable.from([]));
  });
  api.addContentTypeParser("application/json", { parseAs: "string" }, (_request, text, done) => {
    readJson(String(text), done);
  });
  // Fastify also uses this parser for a body without a content type.
  api.addContentTypeParser("*", { parseAs: "string" }, ({ headers, url }, text, done) => {
    const isUntyped = headers["content-type"] === undefined;
    if (isUntyped && takesUntypedJson(url)) return readJson(String(text), done);
    done(new Fault("unsupported_media_type", noJson));
  });
}

function readJson(text: string, done: (error: Error | null, body?: unknown) => void): void {
  if (text === "") return done(null, undefined);
  if (isTooDeep(text)) return done(new Fault("malformed", jsonTooDeep));
  try {
    done(null, JSON.parse(text));
  } catch (error) {
    done(new Fault("malformed", "The body is not valid JSON.", { cause: error }));
  }
}

const tooManyDeployments = perMinute((used) => `The project has started ${used} deployments`);
const tooManyRequests = perMinute((used) => `This token has sent ${used} requests`);

/** The maximum number of fields of a form. */
const fieldsMax = 100;

/**
 * Lets routes with `takesForm` accept forms. Other routes refuse a form, since it is not JSON.
 */
function readForms(api: FastifyInstance): void {
  const formPaths = new Set(
    routeIds.filter((id) => (routes[id] as Route).takesForm).map((id) => routes[id].path),
  );
  const type = "application/x-www-form-urlencoded";
  api.addContentTypeParser(type, { parseAs: "string" }, (request, text, done) => {
    const path: string | undefined = request.routeOptions.url;
    // The set has the type of the table's paths only; the cast lets any path be looked up.
    if (path === undefined || !formPaths.has(path as never)) {
      return done(new Fault("unsupported_media_type", noJson));
    }
    const fields = [...new URLSearchParams(String(text))];
    const hasRepeatedField = new Set(fields.map(([name]) => name)).size !== fields.length;
    if (hasRepeatedField || fields.length > fieldsMax) {
      return done(new Fault("malformed", "The form contains a field twice, or too many fields."));
    }
    done(null, Object.fromEntries(fields));
  });
}

/**
 * Answers of the API are data: browsers must not frame, sniff or cache them. Pages override the
 * policy and the caching.
 */
function setSecurityHeaders(reply: FastifyReply): void {
  void reply.headers({
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  });
}

// Form bodies, which OAuth 2.0 clients send. Only routes that opt in accept them, because any other site can make a browser
// send one.
import type { FastifyInstance } from "fastify";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import type { Route } from "@slipway/contract/route.ts";
import { Fault } from "#lib/fault.ts";

const fieldsMax = 100;

/** Makes the opted-in routes accept forms; all others answer as for any body that is not JSON. */
export function takeForms(api: FastifyInstance): void {
  const takers = new Set(routeIds.filter((id) => (routes[id] as Route).takesForm).map((id) => routes[id].path));
  const type = "application/x-www-form-urlencoded";
  api.addContentTypeParser(type, { parseAs: "string" }, (request, text, done) => {
    const path: string | undefined = request.routeOptions.url;
    if (path === undefined || !takers.has(path as never)) {
      return done(
        new Fault("unsupported_media_type", 'The body must be JSON, sent with "Content-Type: application/json".'),
      );
    }
    const fields = [...new URLSearchParams(String(text))];
    if (new Set(fields.map(([name]) => name)).size !== fields.length || fields.length > fieldsMax) {
      return done(new Fault("malformed", "The form contains a field twice, or too many fields."));
    }
    done(null, Object.fromEntries(fields));
  });
}

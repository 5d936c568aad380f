// Serves the dashboard and the API reference. The dashboard is one page, which is sent for all its
// addresses, and the files that this page loads. Page and files contain no secrets: all data comes
// from the API. A person's session is a cookie that no script can read; it is exchanged for access
// tokens that stay in the browser's memory.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { codingWeights } from "#lib/coding-weights.ts";
import { Fault } from "#lib/fault.ts";
import { isAddressOrLocalhost } from "#lib/nameless-host.ts";
import { ownFiles } from "#lib/own-files.ts";
import { DashboardFiles, typeOf, type DashboardFile } from "./dashboard-files.ts";
import { escaped } from "./html-text.ts";
import type { OtherMethods } from "./other-methods.ts";
import type { ApiParts } from "./parts.ts";

/** Allows only scripts and styles of the platform, none inline, and calls of this API only. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * The headers of all pages. The opener policy `same-origin` keeps pages of other sites from
 * reaching the window of one of these pages, also when one of the two has opened the other.
 */
const headers = {
  "content-security-policy": policy,
  "cache-control": "no-cache",
  "cross-origin-opener-policy": "same-origin",
};

/** Assets may be cached forever, since their names change with their content. */
const forever = "public, max-age=31536000, immutable";
/** While there is no dashboard, another page is sent, which reloads itself after this time. */
const reloadSeconds = 2;

/** The files that the page of the API reference loads. These files need no build. */
const reference = [
  "docs.js",
  "docs-operation.js",
  "docs-try.js",
  "elements.js",
  "plain.css",
  "docs.css",
];

type Answer = (request: FastifyRequest, reply: FastifyReply) => FastifyReply;

type PageParts = Pick<ApiParts, "pagesHost" | "trustedProxies" | "urls"> & {
  readonly files?: DashboardFiles;
};

/** Adds `/dashboard` and `/docs`, and everything below them. */
export function addPages(
  api: FastifyInstance,
  others: OtherMethods,
  { files = new DashboardFiles(), ...parts }: PageParts,
): void {
  const add = (url: string, answer: Answer): void => {
    api.get(url, (request, reply) => {
      if (!isPagesHost(request, parts)) {
        throw new Fault(
          "not_found",
          `No app of this platform answers at this name, and its own pages are at ${parts.urls().dashboardUrl}.`,
        );
      }
      return answer(request, reply);
    });
    others.add(url, ["GET"]);
  };
  const sendPage: Answer = (request, reply) => {
    const page = files.page();
    if (page !== null) return send(page, request, reply.headers(headers));
    const seconds = String(reloadSeconds);
    void reply.code(503).headers({ ...headers, "retry-after": seconds, refresh: seconds });
    return reply.type("text/html; charset=utf-8").send(unbuiltPage(files.problem()));
  };
  for (const url of ["/dashboard", "/dashboard/*"]) add(url, sendPage);
  add("/dashboard/assets/:name", (request, reply) => {
    const asset = files.file(`assets/${(request.params as { name: string }).name}`);
    if (asset === null)
      throw new Fault(
        "not_found",
        "The dashboard has no such file; it was built anew. Reload the page.",
      );
    return send(asset, request, reply.headers({ ...headers, "cache-control": forever }));
  });
  add("/dashboard/favicon.svg", (request, reply) => {
    const icon = files.file("favicon.svg");
    // Without a built dashboard there is no icon.
    return icon === null ? sendPage(request, reply) : send(icon, request, reply.headers(headers));
  });
  for (const name of reference) add(`/docs/assets/${name}`, answerWith(name));
  add("/docs", answerWith("docs.html"));
  add("/", (_request, reply) => reply.redirect("/dashboard"));
}

/**
 * Whether pages are served at the name in `Host`. A name that leads here may be anybody's, such as
 * a domain that no app has proven. A proxy may send a name of its own choice.
 */
function isPagesHost(
  { headers: { host = "" }, raw: { socket } }: FastifyRequest,
  { pagesHost, trustedProxies }: Pick<ApiParts, "pagesHost" | "trustedProxies">,
): boolean {
  if (pagesHost === null || trustedProxies.has(socket.remoteAddress ?? "")) return true;
  const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, "");
  return name === pagesHost || isAddressOrLocalhost(name);
}

function answerWith(name: string): Answer {
  const text = readFileSync(join(ownFiles.apiPages, name), "utf8");
  const type = typeOf(name) ?? "text/plain";
  return (_request, reply) => reply.headers(headers).type(type).send(text);
}

function send(file: DashboardFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const weights = codingWeights(request.headers["accept-encoding"]?.toString() ?? "");
  void reply.type(file.type).header("vary", "accept-encoding");
  for (const encoding of ["br", "gzip"] as const) {
    const content = file[encoding];
    // A client accepts an encoding that it names, unless it gives it the weight 0.
    if (content !== undefined && (weights.get(encoding) ?? 0) > 0)
      return reply.header("content-encoding", encoding).send(content);
  }
  return reply.send(file.plain);
}

/**
 * The page that is shown while there is no dashboard. `problem` says why the build failed; null:
 * the build has not ended.
 */
function unbuiltPage(problem: string | null): string {
  const text =
    problem === null
      ? "<p>The dashboard is being built. After the first start this takes about a minute; <code>npm run dashboard</code> in the platform's folder builds it by hand. This page reloads itself.</p>"
      : `<p>The dashboard could not be built. Mend the cause, then run <code>npm run dashboard</code> in the platform's folder; this page reloads itself.</p><pre>${escaped(problem)}</pre>`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>Slipway</title></head><body><h1>Slipway</h1>${text}<p>All that it shows is also in the API: <a href="/docs">its reference</a></p></body></html>`;
}

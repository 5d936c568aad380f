// Serves the dashboard, as one page for all its addresses and the files that it names, and the API
// reference. They contain no secrets, and all data comes from the API: a person's sign-in is a
// cookie that no script can read; it yields access tokens that stay in the browser's memory.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import { ownFiles } from "#lib/own-files.ts";
import { DashboardFiles, typeOf, type DashboardFile } from "./dashboard-files.ts";
import { escaped } from "./html-text.ts";
import type { OtherMethods } from "./other-methods.ts";

/** Only scripts and styles from here, none inline; the page may call only this API. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Other pages, whether opener or opened, get no reference to its window. */
const headers = {
  "content-security-policy": policy,
  "cache-control": "no-cache",
  "cross-origin-opener-policy": "same-origin",
};

/** Names of assets change with their content. */
const forever = "public, max-age=31536000, immutable";
/** How long the page that stands in for the others waits before it looks again. */
const lookAgainSeconds = 2;

/** Files of the API reference, which needs no build. */
const reference = [
  "docs.js",
  "docs-operation.js",
  "docs-try.js",
  "elements.js",
  "plain.css",
  "docs.css",
];

type Answer = (request: FastifyRequest, reply: FastifyReply) => FastifyReply;

/** Adds `/dashboard` and `/docs`, and everything below them. */
export function addPages(
  api: FastifyInstance,
  others: OtherMethods,
  files = new DashboardFiles(),
): void {
  const add = (url: string, answer: Answer): void => {
    api.get(url, answer);
    others.add(url, ["GET"]);
  };
  const sendPage: Answer = (request, reply) => {
    const page = files.page();
    if (page !== null) return send(page, request, reply.headers(headers));
    const again = String(lookAgainSeconds);
    void reply.code(503).headers({ ...headers, "retry-after": again, refresh: again });
    return reply.type("text/html; charset=utf-8").send(standIn(files.problem()));
  };
  for (const url of ["/dashboard", "/dashboard/*"]) add(url, sendPage);
  add("/dashboard/assets/:name", (request, reply) => {
    const found = files.file(`assets/${(request.params as { name: string }).name}`);
    if (found === null)
      throw new Fault(
        "not_found",
        "The dashboard has no such file; it was built anew. Reload the page.",
      );
    return send(found, request, reply.headers({ ...headers, "cache-control": forever }));
  });
  add("/dashboard/favicon.svg", (request, reply) => {
    const found = files.file("favicon.svg");
    return found === null ? sendPage(request, reply) : send(found, request, reply.headers(headers));
  });
  for (const name of reference) add(`/docs/assets/${name}`, answerWith(name));
  add("/docs", answerWith("docs.html"));
  add("/", (_request, reply) => reply.redirect("/dashboard"));
}

function answerWith(name: string): Answer {
  const text = readFileSync(join(ownFiles.apiPages, name), "utf8");
  const type = typeOf(name) ?? "text/plain";
  return (_request, reply) => reply.headers(headers).type(type).send(text);
}

function send(file: DashboardFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const accepted = request.headers["accept-encoding"]?.toString() ?? "";
  void reply.type(file.type).header("vary", "accept-encoding");
  for (const encoding of ["br", "gzip"] as const) {
    const content = file[encoding];
    if (
      content !== undefined &&
      new RegExp(`\\b${encoding}\\b(?!;q=0(?:\\.0*)?(?:,|$))`).test(accepted)
    ) {
      return reply.header("content-encoding", encoding).send(content);
    }
  }
  return reply.send(file.plain);
}

/** Reloads itself by a header. `problem`: why there are no pages. */
function standIn(problem: string | null): string {
  const text =
    problem === null
      ? "<p>The dashboard is not built yet. That begins with the platform and takes about a minute after the first start; <code>npm run dashboard</code> in the platform's folder does it by hand. This page reloads itself.</p>"
      : `<p>The dashboard could not be built. Mend the cause, then run <code>npm run dashboard</code> in the platform's folder; this page reloads itself.</p><pre>${escaped(problem)}</pre>`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>Slipway</title></head><body><h1>Slipway</h1>${text}<p>All that it shows is also in the API: <a href="/docs">its reference</a></p></body></html>`;
}

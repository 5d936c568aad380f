// The pages of the dashboard: a few fixed files, read once. They hold nothing secret; the token that the user types in
// stays in the browser, and everything shown comes from the API.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply } from "fastify";

/** Scripts and styles from here only, none of them inline; the page talks to this API and to nothing else. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const files = {
  page: { name: "dashboard.html", type: "text/html; charset=utf-8" },
  script: { name: "dashboard.js", type: "text/javascript; charset=utf-8" },
  api: { name: "dashboard-api.js", type: "text/javascript; charset=utf-8" },
  style: { name: "dashboard.css", type: "text/css; charset=utf-8" },
} as const;

/** Adds `/dashboard` and all below it. */
export function addPages(api: FastifyInstance): void {
  for (const file of [files.script, files.api, files.style]) add(api, `/dashboard/assets/${file.name}`, file);
  for (const url of ["/dashboard", "/dashboard/*"]) add(api, url, files.page);
  api.get("/", (_request, reply: FastifyReply) => reply.redirect("/dashboard"));
}

function add(api: FastifyInstance, url: string, file: { readonly name: string; readonly type: string }): void {
  const text = readFileSync(join(import.meta.dirname, "pages", file.name), "utf8");
  api.get(url, (_request, reply: FastifyReply) =>
    reply.headers({ "content-security-policy": policy, "cache-control": "no-cache" }).type(file.type).send(text),
  );
}

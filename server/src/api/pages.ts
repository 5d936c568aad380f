// The pages of the dashboard: a few fixed files, read once. They hold nothing secret, and everything shown comes from the
// API: a person's sign-in is a cookie that no script can read, and gives access tokens that stay in the browser's memory.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply } from "fastify";

/** Scripts and styles from here only, none of them inline; the page talks to this API and to nothing else. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** No page that has opened this one, or was opened by it, gets hold of its window. */
const headers = {
  "content-security-policy": policy,
  "cache-control": "no-cache",
  "cross-origin-opener-policy": "same-origin",
};

const types = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
} as const;

const assets = [
  "dashboard.js",
  "dashboard-api.js",
  "session.js",
  "elements.js",
  "forms.js",
  "sign-in.js",
  "account-page.js",
  "device-page.js",
  "invitation-page.js",
  "password-page.js",
  "dashboard.css",
] as const;

/** Adds `/dashboard` and all below it. */
export function addPages(api: FastifyInstance): void {
  for (const name of assets) add(api, `/dashboard/assets/${name}`, name);
  for (const url of ["/dashboard", "/dashboard/*"]) add(api, url, "dashboard.html");
  api.get("/", (_request, reply: FastifyReply) => reply.redirect("/dashboard"));
}

function add(api: FastifyInstance, url: string, name: `${string}.${keyof typeof types}`): void {
  const text = readFileSync(join(import.meta.dirname, "pages", name), "utf8");
  const type = types[name.slice(name.lastIndexOf(".") + 1) as keyof typeof types];
  api.get(url, (_request, reply: FastifyReply) => reply.headers(headers).type(type).send(text));
}

// The pages of the dashboard and of the API reference: static files, read once. They contain no secrets, and all data comes
// from the API: a person's sign-in is a cookie that no script can read; it yields access tokens that stay in the browser's memory.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance, FastifyReply } from "fastify";
import { addOtherMethods } from "./router.ts";

/** Only scripts and styles from here, none inline; the page may call only this API. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Other pages, whether opener or opened, get no reference to its window. */
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
  "docs.js",
  "docs-operation.js",
  "docs-try.js",
  "docs.css",
] as const;

/** Adds `/dashboard` and everything below it, and `/docs`. */
export function addPages(api: FastifyInstance): void {
  for (const name of assets) add(api, `/dashboard/assets/${name}`, name);
  for (const url of ["/dashboard", "/dashboard/*"]) add(api, url, "dashboard.html");
  add(api, "/docs", "docs.html");
  api.get("/", (_request, reply: FastifyReply) => reply.redirect("/dashboard"));
  addOtherMethods(api, "/", ["GET"]);
}

function add(api: FastifyInstance, url: string, name: `${string}.${keyof typeof types}`): void {
  const text = readFileSync(join(import.meta.dirname, "pages", name), "utf8");
  const type = types[name.slice(name.lastIndexOf(".") + 1) as keyof typeof types];
  api.get(url, (_request, reply: FastifyReply) => reply.headers(headers).type(type).send(text));
  addOtherMethods(api, url, ["GET"]);
}

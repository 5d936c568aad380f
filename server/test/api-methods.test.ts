// Methods that no path has: what HTTP knows and the platform does not, and what nobody knows. Each
// is answered in words.
import assert from "node:assert/strict";
import { METHODS, request } from "node:http";
import { test } from "node:test";
import { faultAnswer } from "@slipway/contract/answers.ts";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import { startManagementApi } from "./support/management-api.ts";

type Answer = {
  readonly status: number | undefined;
  readonly allow: string | undefined;
  readonly body: string;
};

/** `fetch` refuses to send some of the methods. */
function ask(url: string, method: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { authorization: "Bearer x" } }, (answer) => {
      let body = "";
      answer.on("data", (chunk: Buffer) => (body += chunk.toString()));
      answer.on("end", () =>
        resolve({ status: answer.statusCode, allow: answer.headers.allow, body }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("every method of HTTP that a path does not have is answered 405 with Allow and a message, on any path", async (t) => {
  const api = await startManagementApi(t);
  const others = METHODS.filter(
    (one) => !["GET", "HEAD", "POST", "OPTIONS", "CONNECT"].includes(one),
  );
  assert.ok(others.includes("TRACE") && others.includes("PROPFIND") && others.includes("QUERY"));
  for (const method of others) {
    for (const [path, allow] of [
      ["/v2/projects", "GET, POST, HEAD, OPTIONS"],
      ["/dashboard", "GET, HEAD, OPTIONS"],
      ["/dashboard/apps/mine?tab=runs", "GET, HEAD, OPTIONS"],
    ]) {
      const answer = await ask(api.baseUrl + path, method);
      assert.deepEqual([answer.status, answer.allow], [405, allow], `${method} ${path}`);
      faultAnswer.parse(JSON.parse(answer.body));
    }
  }
  const beside = `${api.baseUrl}/v2/projects/${api.projectId}/apps/`;
  assert.equal((await ask(`${beside}git`, "PROPFIND")).allow, "POST, OPTIONS");
  // Not a request for an app of that name.
  assert.equal((await ask(`${beside}git`, "GET")).allow, "POST, OPTIONS");
  assert.equal((await ask(`${beside}git`, "HEAD")).status, 405);
  assert.equal((await ask(`${beside}git`, "POST")).status, 401);
  const options = await ask(`${api.baseUrl}//v2///projects/`, "OPTIONS");
  assert.deepEqual(options, { status: 204, allow: "GET, POST, HEAD, OPTIONS", body: "" });
  assert.equal(
    (await ask(`${beside}mine/`, "PROPFIND")).allow,
    "GET, PATCH, DELETE, HEAD, OPTIONS",
  );
  for (const method of ["TRACE", "PROPFIND", "QUERY"]) {
    const answer = await ask(`${api.baseUrl}/nothing`, method);
    assert.deepEqual(
      [answer.status, answer.allow],
      [405, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"],
      method,
    );
    faultAnswer.parse(JSON.parse(answer.body));
  }
});

test("OPTIONS lists exactly the methods that a path has, also where another path with parameters matches it", async (t) => {
  const api = await startManagementApi(t);
  for (const path of new Set<string>(routeIds.map((id) => routes[id].path))) {
    const own = routeIds
      .filter((id) => routes[id].path === path)
      .map((id): string => routes[id].method);
    if (own.includes("GET")) own.push("HEAD");
    const url = api.baseUrl + path.replaceAll(/\{\w+\}/g, "x");
    const answer = await ask(url, "OPTIONS");
    assert.equal(answer.status, 204, path);
    const allowed = answer.allow?.split(", ").toSorted();
    assert.deepEqual(allowed, [...own, "OPTIONS"].toSorted(), path);
  }
});

// Which deliveries share an endpoint, and which only a receiver.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProjectId } from "#lib/ids.ts";
import { endpointOf } from "./endpoint.ts";

const one = "p-00000001" as ProjectId;
const two = "p-00000002" as ProjectId;

test("the query does not make another endpoint, the path and the project do", () => {
  const plain = endpointOf(one, "https://receiver.example/hook");
  assert.equal(plain.url, "https://receiver.example/hook");
  assert.match(plain.id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual(endpointOf(one, "https://RECEIVER.example:443/hook?job=1&token=x#y"), plain);
  assert.notEqual(endpointOf(one, "https://receiver.example/other").id, plain.id);
  assert.notEqual(endpointOf(two, "https://receiver.example/hook").id, plain.id);
});

test("endpoints of one project on one origin share its places", () => {
  const { lane } = endpointOf(one, "https://receiver.example/hook");
  assert.equal(endpointOf(one, "https://receiver.example/other?x").lane, lane);
  assert.notEqual(endpointOf(one, "http://receiver.example/hook").lane, lane);
  assert.notEqual(endpointOf(two, "https://receiver.example/hook").lane, lane);
});

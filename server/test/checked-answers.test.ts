// The check of answers against the OpenAPI document finds what it is there to find.
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkAnswer } from "./support/checked-answers.ts";

const json = "application/json; charset=utf-8";
const path = "/v2/projects";

test("an answer as the document has it passes, also a refusal, and one of a path that it does not have", () => {
  checkAnswer({ method: "GET", path, status: 200, contentType: json, text: "[]" });
  checkAnswer({
    method: "GET",
    path,
    status: 401,
    contentType: json,
    text: '{ "message": "No token was sent." }',
  });
  checkAnswer({ method: "GET", path: "/hook", status: 200, contentType: "text/plain", text: "" });
  checkAnswer({
    method: "GET",
    path: "/v2/projects/p-00000001/apps/a/builds/1/logs",
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    text: "",
  });
});

test("a wrong status, content type, body, refusal or method is found, with the place", () => {
  const wrong = [
    [{ status: 202, text: "[]" }, /a success that the OpenAPI document does not have/],
    [{ contentType: "text/html", text: "" }, /but the OpenAPI document has application\/json/],
    [{ text: '[{ "id": 7 }]' }, /data\/0/],
    [{ status: 403, text: '{ "error": "no" }' }, /must have required property 'message'/],
    [{ method: "PUT", text: "{}" }, /has no such method/],
  ] as const;
  for (const [change, expected] of wrong) {
    const usual = { method: "GET", path, status: 200, contentType: json, text: "[]" };
    const seen = { ...usual, ...change };
    assert.throws(() => checkAnswer(seen), expected);
  }
});

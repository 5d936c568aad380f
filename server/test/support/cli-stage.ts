// A management API with one app, for tests of commands: each is expected to succeed or to be
// refused.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Config } from "#config.ts";
import type { AppId } from "#lib/ids.ts";
import { commandLine, type CommandLine, type Ended } from "./command-line.ts";
import { startManagementApi, type ApiUnderTest } from "./management-api.ts";

/** A management API with the app `hello`, and commands that run against it. */
export type CliStage = ApiUnderTest & {
  readonly appId: AppId;
  readonly slipway: CommandLine;
  /** A command that must succeed. */
  done(...words: readonly string[]): Promise<Ended>;
  /** A command that must be refused with this exit code; returns the message. */
  refused(code: number, ...words: readonly string[]): Promise<string>;
};

/** Starts it; it ends with the test. */
export async function startCliStage(
  t: TestContext,
  settings: Partial<Config> = {},
): Promise<CliStage> {
  const api = await startManagementApi(t, { settings });
  const body = { name: "hello", gitRepo: "acme/examples" };
  const made = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  const slipway = commandLine(t, api);
  return {
    ...api,
    appId: made.body.appId as AppId,
    slipway,
    async done(...words) {
      const ended = await slipway(words);
      assert.equal(ended.code, 0, `${words.join(" ")}: ${ended.stderr}`);
      return ended;
    },
    async refused(code, ...words) {
      const ended = await slipway(words);
      assert.deepEqual(
        [ended.code, ended.stdout],
        [code, ""],
        `${words.join(" ")}: ${ended.stderr}`,
      );
      return ended.stderr;
    },
  };
}

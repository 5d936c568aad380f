// Every route of the contract, and the call of an app, asked by every sort of caller and with every
// sort of bad token: the right answer each time. What is right stands in `support/access-table.ts`,
// written by hand; a route without a row there fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes, type RouteId } from "@slipway/contract/routes.ts";
import { accessTable, endingRoutes, type Who } from "./support/access-table.ts";
import {
  calledApp,
  chosenCallers,
  matrixCallers,
  openAppListener,
} from "./support/access-callers.ts";
import {
  expectedOf,
  expectedOfAppCall,
  MatrixClient,
  mistake,
  type MatrixCaller,
} from "./support/access-matrix.ts";
import { startManagementApi } from "./support/management-api.ts";
import "#test/support/leftovers.ts";

test("every route, and the call of an app, answers every caller as the table says", async (t) => {
  const api = await startManagementApi(t);
  const everybody = await matrixCallers(api);
  const chosen = await chosenCallers(api);
  const client = new MatrixClient();
  t.after(() => client.close());
  for (const id of routeIds) {
    await t.test(id, async () => {
      const route: Route = routes[id];
      const who: Who =
        accessTable[id] ??
        assert.fail(`${id} has no row in access-table.ts: write down who may use it`);
      const sent = {
        method: route.method,
        url: api.baseUrl + pathOf(route, api.projectId),
        // A body that no route takes: whoever may send it is told so, and nothing happens.
        ...(route.body === undefined ? {} : { body: [] }),
      };
      // Whoever may delete the project would: `projects-api.test.ts` does.
      const callers = [...everybody, ...(chosen.get(route.access) ?? [])].filter(
        ({ bearer }) => id !== "deleteProject" || expectedOf(route, who, bearer) !== "right",
      );
      const wrong = await mistakesOf(callers, async (caller) => {
        const authorization = await caller.authorization(endingRoutes.has(id));
        return mistake(
          expectedOf(route, who, caller.bearer),
          await client.send({ ...sent, authorization, cookie: caller.cookie }),
        );
      });
      assert.deepEqual(wrong, []);
    });
  }
  await t.test("the call of an app", async (part) => {
    const url = `${await openAppListener(part, api)}/v4/${api.projectId}/${calledApp}/run`;
    const callers = [...everybody, ...(chosen.get("apps.call") ?? [])];
    const wrong = await mistakesOf(callers, async (caller) => {
      const authorization = await caller.authorization(false);
      const answer = await client.send({
        method: "POST",
        url,
        authorization,
        cookie: caller.cookie,
        body: {},
      });
      return mistake(expectedOfAppCall(caller.bearer), answer);
    });
    assert.deepEqual(wrong, []);
  });
  const gone = Object.keys(accessTable).filter((id) => !routeIds.includes(id as RouteId));
  assert.deepEqual(gone, [], "the table names only routes that there are");
});

/** Asks as all callers at once; what was wrong, each with the caller's name. */
async function mistakesOf(
  callers: readonly MatrixCaller[],
  ask: (caller: MatrixCaller) => Promise<string | null>,
): Promise<string[]> {
  const found = await Promise.all(
    callers.map(async (caller) => {
      const wrong = await ask(caller);
      return wrong === null ? [] : [`${caller.name}: ${wrong}`];
    }),
  );
  return found.flat();
}

/** The path of a route in the project, with ids of things that are not there. */
function pathOf({ path }: Route, projectId: string): string {
  const ids: Readonly<Record<string, string>> = {
    project_id: projectId,
    app_id: `${projectId}-nothing`,
    host: "nothing.example",
    code: "NOTHING",
  };
  return path.replaceAll(
    /\{(\w+)\}/g,
    (_all, name: string) => ids[name] ?? "00000000-0000-4000-8000-000000000000",
  );
}

// A domain of an app that the name server of pebble proves, for tests of its certificate.
import assert from "node:assert/strict";
import type { Pebble } from "./pebble.ts";
import type { PlatformProcess } from "./platform-process.ts";

/**
 * Adds the domain to the app, makes its TXT record, and has it looked up. The platform asks
 * pebble's name server (`SLIPWAY_DNS_SERVERS`), which says that the domain leads to this machine.
 */
export async function addProvenDomain(
  platform: PlatformProcess,
  pebble: Pebble,
  { app, domain }: { readonly app: string; readonly domain: string },
): Promise<void> {
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${app}/domains`;
  const added = await platform.api("POST", path, { name: domain });
  assert.equal(added.status, 201, JSON.stringify(added.body));
  const { name, value } = added.body.txt as { name: string; value: string };
  await pebble.changeNames("set-txt", { host: `${name}.`, value });
  const { body } = await platform.api("POST", `${path}/${domain}/check`);
  assert.equal(body.state, "Validated", JSON.stringify(body));
}

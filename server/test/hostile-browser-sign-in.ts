// What a hostile app's page tries to get into an account: devices approved by the person's browser,
// and accounts of providers connected by it; from the sandbox, and from the app's own host name.
import assert from "node:assert/strict";
import {
  hasEmptyFrame,
  html,
  isLoaded,
  pagePath,
  tried,
  type Attempt,
  type HostileStage,
} from "./hostile-browser-stage.ts";
import type { Page } from "./support/browser.ts";
import type { Json } from "./support/management-api.ts";

/** Both kinds of pages. */
const addressesOf = (stage: HostileStage): readonly string[] => [
  stage.baseUrl + pagePath,
  `${stage.pagesUrl}/page`,
];

/**
 * Sends a form as soon as the page has it; `field`: a name and a value that make JSON of a
 * text/plain body.
 */
function sendForm(page: Page, action: string, field: readonly [string, string]): Promise<Json> {
  const [name, value] = field;
  const input = `<input name='${name}' value='${value}'>`;
  const markup = `<form method="post" action="${action}" enctype="text/plain">${input}</form>`;
  return page.evaluate(`(() => {
    document.body.innerHTML = ${JSON.stringify(markup)};
    document.forms[0].submit();
  })()`);
}

const approval = ['{"decision":"approve","x":"', '"}'] as const;

export const signInAttempts: Record<string, Attempt> = {
  async "approve the attacker's device: forms, requests, and the page of the code in a frame"(
    stage,
  ) {
    const begun = await stage.api.call("POST", "/device-authorization", { token: null, body: {} });
    const { user_code: code, device_code: deviceCode } = begun.body.deviceAuthResponsePayload;
    const decision = `${stage.baseUrl}/v2/auth/device-logins/${code}`;
    for (const address of addressesOf(stage)) {
      const page = await stage.look({}, address);
      for (const options of [
        "{ method: 'POST', credentials: 'include', mode: 'no-cors', body: '{\"decision\":\"approve\"}' }",
        "{ method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body: '{}' }",
      ]) {
        const answer = await tried(
          page,
          `fetch("${decision}", ${options}).then((one) => one.text())`,
        );
        assert.match(String(answer), /^(?:TypeError)?$/, "nothing of the answer is read");
      }
      const frame = `Object.assign(document.createElement("iframe"), { src: "${stage.baseUrl}/dashboard/device?code=${code}", onload: resolve })`;
      await page.evaluate(`new Promise((resolve) => document.body.append(${frame}))`);
      // Nobody can be made to click in it.
      await hasEmptyFrame(page);
      await sendForm(page, decision, approval);
      await isLoaded(page, decision);
      assert.match(await page.text(), /message/, "it is refused");
    }
    const redeemed = await stage.api.call("POST", "/token", {
      token: null,
      body: { device_code: deviceCode },
    });
    assert.equal(redeemed.body.error, "authorization_pending", "nobody has approved it");
  },
  async "connect an account of the attacker's, or begin and end a sign-in with a provider"(stage) {
    const auth = `${stage.baseUrl}/v2/auth`;
    for (const address of addressesOf(stage)) {
      for (const path of [
        "sign-in-methods/connect",
        "sign-in-methods/disconnect",
        "sign-in/provider",
      ]) {
        const page = await stage.look({}, address);
        await sendForm(page, `${auth}/${path}`, ['{"provider":"github","x":"', '"}']);
        await isLoaded(page, `${auth}/${path}`);
        assert.match(await page.text(), /message/, path);
      }
      for (const provider of ["github", "oidc"]) {
        const page = await stage.look({}, address);
        const callback = `${auth}/callback/${provider}?code=of-the-attacker&state=of-the-attacker`;
        stage.serve({ headers: html, body: "<p>hello" });
        await page.evaluate(`void location.assign("${callback}")`);
        await isLoaded(page, `${auth}/callback/${provider}`);
      }
    }
  },
};

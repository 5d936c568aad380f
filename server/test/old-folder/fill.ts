// What happens on the version before: two months of a project, up to the moment at which the
// platform is killed.
import assert from "node:assert/strict";
import { deploy, replicaCount } from "#test/support/examples.ts";
import type { Json } from "#test/support/management-api.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";
import { gitAt, gitLogin, hooksAt, type Facts, type Page, type Visitor } from "./stage.ts";

const waitMs = 120_000;
const hook = (name: string): string =>
  encodeURIComponent(`http://${hooksAt.host}:${hooksAt.port}/${name}`);
const callerSecret = "a caller's own secret";
const memberIs = { email: "ada@example.test", password: "a password of Ada's" } as const;

type Filled = { readonly facts: Omit<Facts, "commit">; readonly exported: string };

/** Fills one platform; its steps in their order, each after a stop and a start. */
export class Filling {
  readonly #platform: PlatformProcess;
  readonly #runs: Record<string, string> = {};
  readonly #tokens: Record<string, string> = {};
  #appId = "";
  #webId = "";

  constructor(platform: PlatformProcess) {
    this.#platform = platform;
  }

  async october(): Promise<void> {
    await this.#people();
    await this.#issue();
    await this.#money();
    await this.#deploy();
    await this.#use();
    await this.#settle();
  }

  async november(): Promise<void> {
    await this.#buildAgain();
    await this.#settle();
  }

  /** Ends with a run that runs and one that waits. */
  async toTheEnd(): Promise<Filled> {
    const month = "2026-10";
    const closed = async (): Promise<boolean> =>
      (await this.#get(this.#of(`billing/statements/${month}`))).closed_at !== null;
    await until(`the statement of ${month} is closed`, closed, { deadlineMs: waitMs });
    const owner = await this.#visit(this.#ownerIs());
    const member = await this.#visit(memberIs);
    await this.#send("PUT", this.#of("webhook-schedule"), { schedule: "standard" });
    const undelivered = await this.#accept(`run?async=true&webhookEndpoint=${hook("later")}`, {
      word: "sent later",
    });
    await this.#isIn("success", undelivered);
    const running = await this.#accept("hold?async=true", { seconds: 600 });
    await this.#isIn("running", running);
    const waits = `run?async=true&webhookEndpoint=${hook("waiting")}`;
    const waiting = await this.#accept(
      waits,
      { word: "waited" },
      { "X-Webhook-Secret": callerSecret },
    );
    const [secret] = await this.#get(this.#of("webhook-secrets"));
    const exported = await this.#export();
    const pages = await this.#pages();
    const answers: Record<string, Json> = {};
    for (const path of this.#paths()) answers[path] = await this.#get(path);
    const facts = {
      owner,
      member,
      callerSecret,
      pages,
      answers,
      ...(this.#tokens as Pick<
        Facts,
        "serviceAccount" | "revokedServiceAccount" | "inference" | "revokedInference"
      >),
      webhookSecret: String(secret.secret),
      runs: { ...this.#runs, running, waiting, undelivered } as Facts["runs"],
    };
    return { facts, exported };
  }

  /** Lists and things that stay as they are while the platform is away. */
  #paths(): string[] {
    const app = `apps/${this.#appId}`;
    const web = `apps/${this.#webId}`;
    const runs = Object.values(this.#runs).flatMap((id) => [
      `${app}/runs/${id}`,
      `${app}/runs/${id}/result`,
    ]);
    const own = [
      "",
      "members",
      "secrets",
      `${app}/secrets`,
      "git-credentials",
      "service-accounts",
      "api-keys",
      "apps",
      app,
      web,
      `${app}/builds`,
      `${web}/builds`,
      `${app}/runs?pageSize=200`,
      `${web}/runs?pageSize=200`,
      ...runs,
      `${app}/logs?pageSize=1000`,
      `${app}/dead-runs`,
      "webhook-deliveries?pageSize=200",
      "webhook-schedule",
      "webhook-endpoints?pageSize=200",
      "webhook-secrets",
      "billing/coupons",
      "billing/statements/2026-10",
      "usage?from=2026-10-01&to=2026-11-01",
      "usage?from=2026-10-01&to=2026-11-01&group_by=compute",
      "cost?month=2026-10",
      "billing/ledger?pageSize=200",
      "budget",
      `${app}/budget`,
      "plan",
      "audit-log?limit=200",
    ];
    return own.map((path) => this.#of(path).replace(/\/$/, ""));
  }

  async #people(): Promise<void> {
    const made = await this.#send("POST", this.#of("invitations"), {
      email: memberIs.email,
      role: "member",
    });
    const token = String(made.link).split("/").at(-1);
    await this.#send(
      "POST",
      "/v2/auth/invitations/accept",
      { token, name: "Ada", password: memberIs.password },
      null,
    );
  }

  async #issue(): Promise<void> {
    const account = (name: string): Promise<Json> =>
      this.#send("POST", this.#of("service-accounts"), { name, role: "admin" });
    const key = (name: string): Promise<Json> =>
      this.#send("POST", this.#of("api-keys"), { name, readable: true });
    const deploys = await account("ci");
    const gone = await account("gone");
    const calls = await key("calls");
    const goneKey = await key("gone");
    await this.#send("DELETE", this.#of(`service-accounts/${gone.id}`));
    await this.#send("DELETE", this.#of(`api-keys/${goneKey.id}`));
    Object.assign(this.#tokens, {
      serviceAccount: deploys.token,
      revokedServiceAccount: gone.token,
      inference: calls.token,
      revokedInference: goneKey.token,
    });
  }

  async #money(): Promise<void> {
    const { operatorToken } = this.#platform.bootstrap;
    const amount = {
      coupon_type: "fixed_amount",
      amount_cents: 500,
      amount_currency: "USD",
      frequency: "once",
    };
    const part = { coupon_type: "percentage", percentage_rate: 10, frequency: "forever" };
    for (const [code, discount] of [
      ["WELCOME", amount],
      ["TENTH", part],
    ] as const) {
      await this.#send(
        "POST",
        "/v2/operator/coupons",
        { code, name: code, ...discount },
        operatorToken,
      );
      await this.#send("POST", this.#of("billing/coupons/apply"), { coupon_code: code });
    }
    await this.#send("PUT", this.#of("budget"), {
      amount_cents: 7_000_000,
      warn_percent: [50],
      stop: true,
    });
    await this.#send("PATCH", this.#of("secrets"), { WORD: "of the project", UNUSED: "" });
    const host = `${gitAt.host}:${gitAt.port}`;
    await this.#send("PUT", this.#of(`git-credentials/${host}`), { kind: "token", ...gitLogin });
    await this.#send("PUT", this.#of("webhook-schedule"), { schedule: "short" });
  }

  async #deploy(): Promise<void> {
    for (const name of ["teller", "web"]) {
      const made = await deploy(this.#platform, { name, gitRepo: `acme/${name}` });
      assert.equal(made.status, "success", made.log);
      if (name === "teller") this.#appId = made.appId;
      else this.#webId = made.appId;
    }
    await this.#send("PATCH", this.#of(`apps/${this.#appId}/secrets`), { OWN: "of the app" });
    await this.#send("PUT", this.#of(`apps/${this.#appId}/budget`), { amount_cents: 6_000_000 });
  }

  async #use(): Promise<void> {
    for (const word of ["one", "two", "three"]) await this.#call("teller/run", { word });
    await this.#call("teller/keep", { text: "kept since October" });
    await this.#call("web/some/page", {});
    this.#runs["done"] = await this.#accept(`run?async=true&webhookEndpoint=${hook("good")}`, {
      word: "async",
    });
    await this.#isIn("success", this.#runs["done"]);
    for (const name of ["dead", "redriven"]) {
      this.#runs[name] = await this.#accept(
        `fail?async=true&webhookEndpoint=${hook("broken")}`,
        {},
      );
      await this.#isIn("failure", this.#runs[name]);
    }
    await this.#send(
      "POST",
      this.#of(`apps/${this.#appId}/runs/${this.#runs["redriven"]}/redrive`),
    );
    this.#runs["cancelled"] = await this.#accept("hold?async=true", { seconds: 600 });
    await this.#isIn("running", this.#runs["cancelled"]);
    await this.#send("DELETE", this.#of(`apps/${this.#appId}/runs/${this.#runs["cancelled"]}`));
    await this.#isIn("cancelled", this.#runs["cancelled"]);
  }

  async #buildAgain(): Promise<void> {
    const { buildId } = await this.#send(
      "POST",
      this.#of(
        `apps/${this.#webId}/builds/${(await this.#get(this.#of(`apps/${this.#webId}/builds`)))[0].id}/rebuild`,
      ),
    );
    const build = this.#of(`apps/${this.#webId}/builds/${buildId}`);
    await until("it is built again", async () => (await this.#get(build)).status === "success", {
      deadlineMs: waitMs,
    });
    await this.#call("web/other/page", {});
    await this.#call("teller/run", { word: "november" });
  }

  /** No delivery is under way, and no replica runs. */
  async #settle(): Promise<void> {
    const deliveries = this.#of("webhook-deliveries?state=pending");
    const isQuiet = async (): Promise<boolean> => {
      const teller = await replicaCount(this.#platform, this.#appId);
      const web = await replicaCount(this.#platform, this.#webId);
      return teller + web === 0 && (await this.#get(deliveries)).items.length === 0;
    };
    await until("nothing is under way", isQuiet, { deadlineMs: waitMs });
  }

  #ownerIs(): { email: string; password: string } {
    const { ownerEmail: email, ownerPassword: password } = this.#platform.bootstrap;
    return { email, password };
  }

  async #visit(who: { readonly email: string; readonly password: string }): Promise<Visitor> {
    const response = await fetch(`${this.#platform.bootstrap.baseUrl}/v2/auth/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(who),
    });
    assert.equal(response.status, 200);
    const { refreshToken } = (await response.json()) as Json;
    return {
      ...who,
      refreshToken,
      cookies: response.headers.getSetCookie().map((line) => line.split(";")[0] ?? ""),
    };
  }

  async #pages(): Promise<Page[]> {
    const app = `apps/${this.#appId}`;
    const lists = [`${app}/runs?pageSize=2`, `${app}/logs?pageSize=2`, "audit-log?limit=2"];
    lists.push(
      "webhook-deliveries?pageSize=1",
      "webhook-endpoints?pageSize=1",
      `${app}/dead-runs?pageSize=1`,
      "billing/ledger?pageSize=1",
    );
    const pages: Page[] = [];
    for (const list of lists) {
      const path = this.#of(list);
      const first = await this.#get(path);
      const token = String(first.nextToken ?? first.nextPageToken);
      const next = await this.#get(`${path}&nextToken=${token}`);
      pages.push({
        path,
        token,
        next: (next.items ?? next.logs).map((one: Json) => String(one.id ?? one.logId)),
      });
    }
    return pages;
  }

  async #export(): Promise<string> {
    const { baseUrl, serviceAccountToken } = this.#platform.bootstrap;
    const headers = { authorization: `Bearer ${serviceAccountToken}` };
    return await (await fetch(baseUrl + this.#of("audit-log/export"), { headers })).text();
  }

  #of(path: string): string {
    return `/v2/projects/${this.#platform.bootstrap.projectId}/${path}`;
  }

  async #get(path: string): Promise<Json> {
    const { status, body } = await this.#platform.api("GET", path);
    assert.ok(status === 200 || status === 404, `${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** `token`: instead of the owner's service account; null: none. */
  async #send(method: string, path: string, body?: object, token?: string | null): Promise<Json> {
    const { baseUrl, serviceAccountToken } = this.#platform.bootstrap;
    const headers: Record<string, string> = {};
    if (token !== null) headers["authorization"] = `Bearer ${token ?? serviceAccountToken}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const response = await fetch(baseUrl + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  async #call(path: string, body: object): Promise<void> {
    const [app = "", ...rest] = path.split("/");
    const response = await this.#platform.call(app, rest.join("/"), body);
    assert.equal(response.status, 200, await response.text());
  }

  async #accept(path: string, body: object, headers: Record<string, string> = {}): Promise<string> {
    const response = await this.#platform.call("teller", path, body, { headers });
    assert.equal(response.status, 202);
    return ((await response.json()) as { run_id: string }).run_id;
  }

  async #isIn(status: string, runId: string): Promise<void> {
    const path = this.#of(`apps/${this.#appId}/runs/${runId}`);
    await until(
      `a run is in ${status}`,
      async () => (await this.#get(path)).item.status === status,
      {
        deadlineMs: waitMs,
      },
    );
  }
}

// The host name that each app has for its pages, so that a browser gives it an origin of its own:
// `{app}-{project}` below one name, which is `localhost` unless SLIPWAY_APP_PAGES_HOST says
// otherwise. Browsers resolve every name below `localhost` to their own machine, so it needs no
// DNS, and serves only who uses the platform on its own machine. Pure.

/** An app, as its host name says. */
export type AppOfHost = { readonly projectId: string; readonly appName: string };

/** One label, since a certificate for `*.apps.example.org` covers only one. */
const labelForm = /^([a-z0-9-]{3,30})-(p-[0-9a-f]{8})$/;
const machine = "localhost";
const machineHosts: ReadonlySet<string> = new Set([machine, "127.0.0.1", "[::1]"]);

/** One per platform. */
export class AppHosts {
  readonly #end: string;

  /** `parent`: in lower case. */
  constructor(parent: string) {
    this.#end = `.${parent}`;
  }

  /**
   * The app whose pages a `Host` field is for, whether or not it exists; null: it is for the
   * platform.
   */
  appOf(host: string | undefined): AppOfHost | null {
    if (host === undefined || !/-p-/i.test(host)) return null;
    const name = host.replace(/:\d*$/, "").toLowerCase();
    if (!name.endsWith(this.#end)) return null;
    const [, appName, projectId] = labelForm.exec(name.slice(0, -this.#end.length)) ?? [];
    return appName === undefined || projectId === undefined ? null : { projectId, appName };
  }

  /**
   * Where a browser opens the app; null: the name does not lead there from where the platform is
   * used.
   */
  urlOf(baseUrl: string, { projectId, appName }: AppOfHost): string | null {
    const url = new URL(baseUrl);
    const label = `${appName}-${projectId}`;
    const isReached = this.#end !== `.${machine}` || machineHosts.has(url.hostname);
    if (!isReached || labelForm.exec(label)?.[2] !== projectId) return null;
    const port = url.port === "" ? "" : `:${url.port}`;
    return `${url.protocol}//${label}${this.#end}${port}/`;
  }
}

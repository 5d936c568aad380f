// Each app has a host name for its pages, so that a browser gives it an origin of its own:
// `{app}-{project}` below one name, which is `localhost` unless SLIPWAY_DOMAIN is set.
// Browsers resolve every name below `localhost` to their own machine. So such names need no DNS,
// but work only for people who use the platform on its own machine. Pure.

/** The app that a host name stands for. */
export type AppOfHost = { readonly projectId: string; readonly appName: string };

/**
 * Matches the app's part of a host name, such as `web-p-0a1b2c3d`. It is a single label, since a
 * certificate for `*.apps.example.org` covers no more.
 */
const labelForm = /^([a-z0-9-]{3,30})-(p-[0-9a-f]{8})$/;
const machine = "localhost";
const machineHosts: ReadonlySet<string> = new Set([machine, "127.0.0.1", "[::1]"]);

/** Converts between apps and their host names. A platform has one object of this class. */
export class AppHosts {
  /** The domain above all apps, in lower case. */
  readonly parent: string;
  readonly #end: string;

  constructor(parent: string) {
    this.parent = parent;
    this.#end = `.${parent}`;
  }

  /**
   * Returns the app whose pages the field `Host` names, whether or not the app exists; null when
   * the field names the platform.
   */
  appOf(host: string | undefined): AppOfHost | null {
    // Every name of an app has this part; most hosts do not, and need no further work.
    if (host === undefined || !/-p-/i.test(host)) return null;
    const name = host.replace(/:\d*$/, "").toLowerCase();
    if (!name.endsWith(this.#end)) return null;
    const [, appName, projectId] = labelForm.exec(name.slice(0, -this.#end.length)) ?? [];
    return appName === undefined || projectId === undefined ? null : { projectId, appName };
  }

  /** The name that covers the host names of all apps; null: they are on the visitor's machine. */
  get wildcard(): string | null {
    return this.#end === `.${machine}` ? null : `*${this.#end}`;
  }

  /**
   * Returns the URL at which a browser opens the app; null when its host name would lead the
   * browser to the browser's own machine instead of the platform's, or cannot name the app.
   */
  urlOf(baseUrl: string, app: AppOfHost): string | null {
    const url = new URL(baseUrl);
    const isReached = this.parent !== machine || machineHosts.has(url.hostname);
    const host = this.#hostOf(app);
    if (!isReached || host === null) return null;
    const port = url.port === "" ? "" : `:${url.port}`;
    return `${url.protocol}//${host}${port}/`;
  }

  /** The app's host name in DNS; null when it has none there, or its name is of another form. */
  dnsNameOf(app: AppOfHost): string | null {
    return this.parent === machine ? null : this.#hostOf(app);
  }

  /** Null: the app's name is not of the form that a host name can hold. */
  #hostOf({ projectId, appName }: AppOfHost): string | null {
    const label = `${appName}-${projectId}`;
    return labelForm.exec(label)?.[2] === projectId ? `${label}${this.#end}` : null;
  }
}

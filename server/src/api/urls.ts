// The URLs that answers of the API contain.
import type { AppHosts } from "#lib/app-hosts.ts";
import { type AppKey, type BuildId, type ProjectId, shownAppId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/** The platform's base URLs, without a trailing slash. */
export type Urls = {
  readonly baseUrl: string;
  /** Calls of apps are below `{apiUrl}/v4/`. */
  readonly apiUrl: string;
  readonly dashboardUrl: string;
  readonly appHosts: AppHosts;
};

/** The page of an app in the dashboard. */
export function appPage(urls: Urls, { projectId, appId }: AppKey): string {
  return `${urls.dashboardUrl}/projects/${projectId}/apps/${shownAppId(appId)}`;
}

type BuildRef = AppKey & { readonly buildId: BuildId };

/** The page of a build in the dashboard. */
export function buildPage(urls: Urls, build: BuildRef): string {
  return `${appPage(urls, build)}/builds/${build.buildId}`;
}

/** The URL of a build's log in the API. */
export function buildLogUrl(urls: Urls, { projectId, appId, buildId }: BuildRef): string {
  return `${urls.baseUrl}/v2/projects/${projectId}/apps/${shownAppId(appId)}/builds/${buildId}/logs`;
}

/** The URL at which an app is called. */
export function appEndpoint(urls: Urls, projectId: ProjectId, appName: string): string {
  return `${urls.apiUrl}/v4/${projectId}/${appName}`;
}

/**
 * The URL at which a browser opens an app that serves pages. Where host names of apps lead to the
 * platform, the URL has the app's host name, and otherwise the app's path.
 */
export function pageOfApp(urls: Urls, projectId: ProjectId, appName: string): string {
  return (
    urls.appHosts.urlOf(urls.apiUrl, { projectId, appName }) ??
    `${appEndpoint(urls, projectId, appName)}/`
  );
}

/** The URL to which a git host sends the push events of an app. */
export function gitHookUrl(urls: Urls, address: string): string {
  return `${urls.baseUrl}/v2/git-hooks/${address}`;
}

/** The URL that receives the files of a deployment. Anyone who knows it can send them. */
export function uploadUrl(urls: Urls, key: Secret): string {
  return `${urls.baseUrl}/v2/uploads/${key.reveal()}`;
}

/** The URL that receives one part of a file. Anyone who knows it can send the part. */
export function partUrl(urls: Urls, key: Secret, number: number): string {
  return `${urls.baseUrl}/v2/volume-uploads/${key.reveal()}/${number}`;
}

/** The URL of a file's download. Anyone who knows it can read the file. */
export function downloadUrl(urls: Urls, key: Secret): string {
  return `${urls.baseUrl}/v2/volume-downloads/${key.reveal()}`;
}

/** The page on which an invitation is accepted. Anyone who knows the URL can open it. */
export function invitationPage(urls: Urls, secret: Secret): string {
  return `${urls.dashboardUrl}/invitations/${secret.reveal()}`;
}

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

/** An app's page. */
export function appPage(urls: Urls, { projectId, appId }: AppKey): string {
  return `${urls.dashboardUrl}/projects/${projectId}/apps/${shownAppId(appId)}`;
}

type BuildRef = AppKey & { readonly buildId: BuildId };

/** A build's page. */
export function buildPage(urls: Urls, build: BuildRef): string {
  return `${appPage(urls, build)}/builds/${build.buildId}`;
}

/** A build's log in the API. */
export function buildLogUrl(urls: Urls, { projectId, appId, buildId }: BuildRef): string {
  return `${urls.baseUrl}/v2/projects/${projectId}/apps/${shownAppId(appId)}/builds/${buildId}/logs`;
}

/** Where an app is called. */
export function appEndpoint(urls: Urls, projectId: ProjectId, appName: string): string {
  return `${urls.apiUrl}/v4/${projectId}/${appName}`;
}

/**
 * Where a browser opens an app that serves pages: its own host name where that leads here, else its
 * path.
 */
export function pageOfApp(urls: Urls, projectId: ProjectId, appName: string): string {
  return (
    urls.appHosts.urlOf(urls.apiUrl, { projectId, appName }) ??
    `${appEndpoint(urls, projectId, appName)}/`
  );
}

/** Where a git host sends the push events of an app. */
export function gitHookUrl(urls: Urls, address: string): string {
  return `${urls.baseUrl}/v2/git-hooks/${address}`;
}

/** Takes the files of a deployment. Anyone with this address can send them. */
export function uploadUrl(urls: Urls, key: Secret): string {
  return `${urls.baseUrl}/v2/uploads/${key.reveal()}`;
}

/** Takes one part of a file. Anyone with this address can send it. */
export function partUrl(urls: Urls, key: Secret, number: number): string {
  return `${urls.baseUrl}/v2/volume-uploads/${key.reveal()}/${number}`;
}

/** Gives a file. Anyone with this address can read it. */
export function downloadUrl(urls: Urls, key: Secret): string {
  return `${urls.baseUrl}/v2/volume-downloads/${key.reveal()}`;
}

/** The page to accept an invitation. Anyone with this address can accept it. */
export function invitationPage(urls: Urls, secret: Secret): string {
  return `${urls.dashboardUrl}/invitations/${secret.reveal()}`;
}

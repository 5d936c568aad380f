// Credentials for private repositories, one per host of a project: encrypted at rest, never shown.
// Builds also get an app's credentials for its image registry here.
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import { dockerAuthContext } from "./app.ts";
import {
  dropCredential,
  putCredential,
  readCredentials,
  readDockerAuth,
  type CredentialRow,
} from "./credential-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** A credential for fetching a repository. */
export type GitCredential = {
  readonly kind: "token" | "ssh_key";
  /** Null: `x-access-token` for a token, `git` for a key. */
  readonly username: string | null;
  readonly secret: Secret;
};

/** A credential without its secret. */
export type CredentialView = Pick<CredentialRow, "host" | "kind" | "username"> & {
  readonly createdAt: Date;
  readonly updatedAt: Date;
};

/** Projects use fewer hosts; the limit only bounds the response. */
const credentialsMax = 1000;
/** A private key in PEM or OpenSSH form: it stands between a BEGIN line and an END line. */
const keyForm =
  /^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[\s\S]+-----END [A-Z ]*PRIVATE KEY-----\s*$/;

/** Git credentials of projects. */
export class Credentials {
  readonly #parts: Pick<Foundation, "db" | "sealer">;

  constructor(parts: Pick<Foundation, "db" | "sealer">) {
    this.#parts = parts;
  }

  /** All credentials of a project, by host. Records the access. */
  async list(projectId: ProjectId, by: By): Promise<CredentialView[]> {
    const rows = await readCredentials(this.#parts.db, { projectId, limit: credentialsMax });
    await record(this.#parts.db, { projectId, action: "git_credentials.read", by });
    return rows.map(view);
  }

  /** One credential, without its secret. Records the access. Throws `Fault("not_found")`. */
  async get(projectId: ProjectId, host: string, by: By): Promise<CredentialView> {
    const [row] = await readCredentials(this.#parts.db, { projectId, host, limit: 1 });
    if (row === undefined) throw noSuchCredential(host);
    await record(this.#parts.db, {
      projectId,
      action: "git_credentials.read",
      by,
      resource: resourceOf(host),
    });
    return view(row);
  }

  /** Sets the credential of a host. Throws `Fault("invalid")` for an invalid key or token. */
  async set(change: {
    readonly projectId: ProjectId;
    readonly host: string;
    readonly credential: GitCredential;
    readonly by: By;
  }): Promise<void> {
    const { projectId, host, by } = change;
    const { kind, username, secret } = change.credential;
    if (kind === "ssh_key" && !keyForm.test(secret.reveal())) {
      throw new Fault(
        "invalid",
        "secret is not shown here, but must be a private key in PEM or OpenSSH form for kind ssh_key.",
      );
    }
    if (kind === "token" && !/^[\x21-\x7e]+$/.test(secret.reveal())) {
      throw new Fault(
        "invalid",
        "secret is not shown here, but must be one line without spaces for kind token.",
      );
    }
    await this.#parts.db.transaction().execute(async (tx) => {
      const [before] = await readCredentials(tx, { projectId, host, limit: 1 });
      const secret_sealed = this.#parts.sealer.seal(
        secret.reveal(),
        credentialContext(projectId, host),
      );
      await putCredential(tx, { project_id: projectId, host, kind, username, secret_sealed });
      const old =
        before === undefined ? undefined : { kind: before.kind, username: before.username };
      // The audit log masks the new secret, and does not get the old one.
      const changes = {
        credential: { old, new: secret },
        kind: { old: old?.kind, new: kind },
        username: { old: old?.username, new: username },
      };
      await record(tx, {
        projectId,
        action: "git_credentials.update",
        by,
        resource: resourceOf(host),
        changes,
      });
    });
  }

  /** Removes the credential of a host. Throws `Fault("not_found")`. */
  async remove(projectId: ProjectId, host: string, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      if (!(await dropCredential(tx, projectId, host))) throw noSuchCredential(host);
      await record(tx, {
        projectId,
        action: "git_credentials.delete",
        by,
        resource: resourceOf(host),
      });
    });
  }

  /**
   * Credentials for pulling an app's base image, in Docker's own format; null when none are set.
   */
  async forRegistry(appId: AppId): Promise<Secret | null> {
    const sealed = await readDockerAuth(this.#parts.db, appId);
    return sealed === null ? null : this.#parts.sealer.open(sealed, dockerAuthContext(appId));
  }

  /**
   * The credential for a host, which is stored in lower case; null when the project has none. Used
   * by the platform itself, so the access is not recorded.
   */
  async forFetch(projectId: ProjectId, host: string): Promise<GitCredential | null> {
    const [row] = await readCredentials(this.#parts.db, {
      projectId,
      host: host.toLowerCase(),
      limit: 1,
    });
    if (row === undefined) return null;
    const secret = this.#parts.sealer.open(
      row.secret_sealed,
      credentialContext(projectId, row.host),
    );
    return { kind: row.kind, username: row.username, secret };
  }
}

function noSuchCredential(host: string): Fault {
  return new Fault("not_found", `The project has no git credential for ${host}.`);
}

/** The encryption context of a credential. */
export function credentialContext(projectId: ProjectId, host: string): string {
  return `git-credential:${projectId}:${host}`;
}

function resourceOf(host: string): { type: string; id: string } {
  return { type: "git_credential", id: host };
}

function view(row: CredentialRow): CredentialView {
  const { host, kind, username } = row;
  return { host, kind, username, createdAt: row.created_at, updatedAt: row.updated_at };
}

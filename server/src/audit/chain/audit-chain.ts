// Signs the ends of the audit log's chains: periodically, after many entries, at stop, and for an
// export. Write access to the database alone is not enough to rewrite signed entries.
import * as format from "#audit/export/export-format.ts";
import { chainOf, projectOfChain } from "#audit/export/export-store.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { keyIdOf, signatureFault, signText, type ChainSigner } from "./chain-signature.ts";
import {
  insertCheckpoint,
  listCheckpoints,
  listOpenEnds,
  readSigned,
  readStub,
  type CheckpointRange,
  type OpenEnd,
  type OpenEndQuery,
} from "./chain-store.ts";

export type AuditChainOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly signer: ChainSigner;
};

/** A chain with new entries is signed at least this often. */
const checkpointEveryMs = 3_600_000;
/** A chain is also signed after this many new entries. */
const checkpointEntries = 1_000;
/** How often the platform looks for chains that are due. */
const turnEveryMs = 300_000;
/**
 * One turn, or `stop`, makes at most this many checkpoints; later turns sign the rest. A signature
 * takes a millisecond.
 */
const checkpointsMax = 2_000;
/** How many chain ends are read at once. */
const batchMax = 100;
/**
 * How many times to try to sign an end. A try fails if another signer was faster, and one chain
 * never has so many signers at once.
 */
const signTriesMax = 100;

/** The first lines of an export. */
export type ExportBegin = {
  readonly header: format.ExportHeader;
  /** Undefined: none of the chain's entries were removed. */
  readonly stub: format.StubLine | undefined;
};

/** Signs in a loop; `start` and `stop` it with the platform. */
export class AuditChain {
  readonly #options: AuditChainOptions;
  readonly #loop: Loop;

  constructor(options: AuditChainOptions) {
    this.#options = options;
    const { clock, log } = options;
    const turn = (signal: AbortSignal): Promise<void> => this.signDue(signal);
    this.#loop = new Loop({ name: "audit checkpoints", intervalMs: turnEveryMs, clock, log, turn });
  }

  start(): void {
    this.#loop.start();
  }

  /**
   * Signs all unsigned ends; if the database cannot be reached, they are signed after a restart.
   */
  async stop(): Promise<void> {
    await this.#loop.stop();
    try {
      await this.#signAll({});
    } catch (error) {
      this.#options.log.warn(
        { err: error },
        "the ends of the audit log's chains could not be signed",
      );
    }
  }

  /**
   * Signs the end of a chain if it is unsigned. `projectId` null: the chain of entries without a
   * project. Returns the signed position, which covers every entry that existed at the call, or the
   * beginning of an empty chain.
   */
  async checkpoint(projectId: ProjectId | null): Promise<format.ChainPosition> {
    const { db } = this.#options;
    const chain = chainOf(projectId);
    // Stays 0 without an unsigned end: then the last signature covers the chain, whatever number it
    // has.
    let endAtCall = 0;
    for (let tries = 0; tries < signTriesMax; tries++) {
      const [end] = await listOpenEnds(db, { chain, limit: 1 });
      if (tries === 0 && end !== undefined) endAtCall = end.number;
      if (end !== undefined) await this.#sign(end);
      const signed = (await readSigned(db, chain)) ?? format.chainBegin;
      if (signed.number >= endAtCall) return signed;
      // A concurrent signer was faster, but had read an earlier end. The next try signs the rest.
    }
    throw new Error(
      `the end of the chain ${chain} could not be signed: others were faster ${signTriesMax} times`,
    );
  }

  /**
   * Header and stub of an export up to `through`, which is a checkpoint's position if there is no
   * filter.
   */
  async begin(
    db: Db,
    request: {
      readonly projectId: ProjectId | null;
      readonly through: format.ChainPosition;
      readonly filter: format.ExportFilter | null;
    },
  ): Promise<ExportBegin> {
    const { clock, signer } = this.#options;
    const { projectId: project, through, filter } = request;
    const row = await readStub(db, chainOf(project));
    const stub =
      row === undefined
        ? undefined
        : format.stubLine({ ...row, ...(await this.#validJws(row, project)) });
    const exportedAt = new Date(clock.now()).toISOString();
    // Retention may meanwhile have removed the entries up to `through` and later ones: then there
    // are no entries to export.
    const isGone = stub !== undefined && stub.number > through.number;
    const positions = { after: stub ?? format.chainBegin, through: isGone ? stub : through };
    // The signed text is made of the line without `jws`, which the functions of the format require.
    const { jws: _, ...unsigned } = format.exportHeader({
      project,
      exportedAt,
      filter,
      ...positions,
      jws: "",
    });
    const { jws } = await signText(signer, format.signedText(unsigned, project));
    return { header: format.exportHeader({ ...unsigned, jws }), stub };
  }

  /**
   * Checkpoints for an export: numbers after `after` up to `through`, in order, at most `limit`.
   */
  async checkpoints(db: Db, range: CheckpointRange): Promise<format.CheckpointLine[]> {
    const lines = await listCheckpoints(db, range);
    const project = projectOfChain(range.chain);
    return Promise.all(
      lines.map(async (line) =>
        format.checkpointLine({ ...line, ...(await this.#validJws(line, project)) }),
      ),
    );
  }

  /**
   * The signature of a line. If its key has been withdrawn, the line is signed again, because the
   * public key is no longer published. A signature that was never ours stays, so that verification
   * of the export finds it.
   */
  async #validJws(
    line: format.CheckpointLine | format.StubLine,
    project: ProjectId | null,
  ): Promise<{ readonly jws: string }> {
    const { signer } = this.#options;
    const { jws, ...unsigned } = line;
    // An unreadable signature gets the empty id, which no key has.
    const keyId = keyIdOf(jws) ?? "";
    const withdrawn = signer.verifier(keyId) === undefined ? signer.withdrawn(keyId) : undefined;
    if (withdrawn === undefined) return { jws };
    const text = format.signedText(unsigned, project);
    const fault = await signatureFault(jws, text, new Map([[keyId, withdrawn]]));
    return fault === null ? await signText(signer, text) : { jws };
  }

  /** One turn: signs chain ends whose last checkpoint is old or many entries back. */
  async signDue(signal: AbortSignal): Promise<void> {
    const nowMs = this.#options.clock.now();
    const before = new Date(nowMs - checkpointEveryMs);
    // A checkpoint from the future was made by a wrong clock; see `OpenEndQuery`.
    const beyond = new Date(nowMs + checkpointEveryMs);
    await this.#signAll({ due: { before, beyond, entriesMin: checkpointEntries } }, signal);
  }

  async #signAll(query: Pick<OpenEndQuery, "due">, signal?: AbortSignal): Promise<void> {
    for (let signed = 0; signed < checkpointsMax; signed += batchMax) {
      const ends = await listOpenEnds(this.#options.db, { ...query, limit: batchMax });
      for (const end of ends) {
        if (signal?.aborted === true) return;
        await this.#sign(end);
      }
      if (ends.length < batchMax) return;
    }
  }

  async #sign(end: OpenEnd): Promise<void> {
    const { db, clock, signer } = this.#options;
    const at = new Date(clock.now());
    // As in `begin`, the line is made with an empty `jws`, which is not part of the signed text.
    const { jws: _, ...unsigned } = format.checkpointLine({
      ...end,
      at: at.toISOString(),
      jws: "",
    });
    const signature = await signText(
      signer,
      format.signedText(unsigned, projectOfChain(end.chain)),
    );
    await insertCheckpoint(db, { ...end, at, ...signature });
  }
}

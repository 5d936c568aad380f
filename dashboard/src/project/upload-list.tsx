// What is being sent: progress of all, the files that are under way or failed, and asking before
// the page is left.
import type { ReactNode } from "react";
import { Button, Modal, Progress } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { sizeText } from "#parts/quantities.ts";
import type { Upload, Uploads } from "./uploads.ts";

const shownMax = 20;

type UploadListProps = { readonly uploads: Uploads; readonly all: readonly Upload[] };

/** Nothing, while nothing was sent. */
export function UploadList({ uploads, all }: UploadListProps): ReactNode {
  if (all.length === 0) return null;
  const shown = [...all].sort((a, b) => rank(a) - rank(b) || a.id - b.id).slice(0, shownMax);
  return (
    <section className="uploads">
      <ProgressOfAll uploads={uploads} all={all} />
      <List
        label="Uploads"
        columns={[
          "File",
          { head: "Size", isNumber: true },
          { head: "Sent", isNumber: true },
          "State",
          "",
        ]}
        rows={shown.map((one) => ({
          key: String(one.id),
          cells: [
            <Name key="path" of={one.path} />,
            sizeText(one.size),
            one.state === "failed"
              ? "–"
              : `${percentOf(one.sent, one.size, one.state !== "done")} %`,
            <StateOf key="state" of={one} />,
            one.state === "waiting" || one.state === "sending" ? (
              <button
                key="cancel"
                type="button"
                className="as-link"
                aria-label={`Cancel ${one.path}`}
                onClick={() => uploads.cancel(one.id)}
              >
                Cancel
              </button>
            ) : null,
          ],
        }))}
      />
      {all.length > shownMax ? <p className="muted">and {all.length - shownMax} more</p> : null}
      <Leaving uploads={uploads} />
    </section>
  );
}

/** How much is sent of what is still wanted, and a way to end it all. */
function ProgressOfAll({ uploads, all }: UploadListProps): ReactNode {
  const isBusy = uploads.isBusy();
  const wanted = all.filter(({ state }) => state !== "cancelled");
  const done = wanted.filter(({ state }) => state === "done").length;
  const failed = wanted.filter(({ state }) => state === "failed").length;
  const going = wanted.filter(({ state }) => state !== "failed");
  const size = going.reduce((sum, one) => sum + one.size, 0);
  const sent = going.reduce((sum, one) => sum + one.sent, 0);
  return (
    <>
      <div className="title">
        {/* Not read out with each byte. */}
        <p role="status" aria-label="Uploads done">
          {`${done} of ${wanted.length} ${wanted.length === 1 ? "file" : "files"} uploaded`}
          {failed === 0 ? "" : `, ${failed} failed`}
        </p>
        <span className="muted">
          {sizeText(sent)} of {sizeText(size)}
        </span>
        <div className="action">
          {isBusy ? (
            <Button variant="default" onClick={() => uploads.cancelAll()}>
              Cancel all
            </Button>
          ) : (
            <Button variant="default" onClick={() => uploads.clear()}>
              Close
            </Button>
          )}
        </div>
      </div>
      <Progress value={percentOf(sent, size, isBusy)} aria-label="Uploaded" size="sm" />
    </>
  );
}

/** What somebody has to look at comes first, then what is under way. */
function rank({ state }: Upload): number {
  return ["failed", "sending", "waiting", "cancelled", "done"].indexOf(state);
}

/** An empty file has no bytes that could be sent. */
function percentOf(sent: number, size: number, isBusy: boolean): number {
  if (size === 0) return isBusy ? 0 : 100;
  return Math.floor((100 * sent) / size);
}

const kinds = {
  waiting: "wait",
  sending: "wait",
  done: "good",
  failed: "bad",
  cancelled: "muted",
} as const;

function StateOf({ of: { state, reason } }: { readonly of: Upload }): ReactNode {
  return (
    <>
      <span className="state" data-kind={kinds[state]}>
        {state}
      </span>
      {reason === "" ? null : (
        <span className="note" role="alert">
          <Name of={reason} />
        </span>
      )}
    </>
  );
}

/** The files are read by this page: without it they cannot be sent. */
function Leaving({ uploads }: { readonly uploads: Uploads }): ReactNode {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => uploads.isBusy() && current.pathname !== next.pathname,
    enableBeforeUnload: () => uploads.isBusy(),
    withResolver: true,
  });
  if (status !== "blocked") return null;
  return (
    <Modal
      opened
      onClose={reset}
      title="Files are being uploaded"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <p>They are cancelled when you leave this page.</p>
      <div className="choices">
        <Button color="red" onClick={proceed}>
          Leave and cancel them
        </Button>
        <Button variant="default" onClick={reset}>
          Stay
        </Button>
      </div>
    </Modal>
  );
}

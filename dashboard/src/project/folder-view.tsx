// One folder of the persistent storage: the way to it, what is in it page by page, and uploads into
// it. The folder and the page are in the address.
import { useState, type ReactNode } from "react";
import { Button, FileButton, Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { saveFrom } from "#parts/download.ts";
import { useRun } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { PageButtons } from "#parts/page-buttons.tsx";
import { sizeText } from "#parts/quantities.ts";
import { Answer, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { queryClient } from "#queries.ts";
import { UploadList } from "./upload-list.tsx";
import { filesMax, useUploads } from "./uploads.ts";
import { ownAddress, volumeOf, volumePath } from "./volume-upload.ts";

type FolderRef = { readonly project: string; readonly dir: string };

const pageSize = 200;
/** So many names are looked through for files that an upload would replace. */
const namesMax = 10_000;

const filesOf = (
  folder: FolderRef,
  page: { after?: string | undefined; pageSize: number },
  signal?: AbortSignal,
) => {
  const { after, pageSize: size } = page;
  const query = {
    pageSize: size,
    ...(folder.dir === "" ? {} : { dir: folder.dir }),
    ...(after === undefined ? {} : { after }),
  };
  return ask(
    api.GET(`${volumePath}/ls`, { params: { path: volumeOf(folder.project), query }, signal }),
  );
};

type Entry = Awaited<ReturnType<typeof filesOf>>[number];

async function changed(): Promise<void> {
  await Promise.all(
    ["files", "volumes"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })),
  );
}

/** The path of something in the folder. */
function pathIn(dir: string, name: string): string {
  return dir === "" ? name : `${dir}/${name}`;
}

/** The folder that the address names. */
export function FolderView({ project }: { readonly project: string }): ReactNode {
  const { dir = "", after } = useSearch({ strict: false });
  const navigate = useNavigate();
  const mayWrite = useMay(project)("volumes.write");
  const folder = { project, dir };
  const files = useQuery({
    queryKey: ["files", project, dir, after],
    queryFn: ({ signal }) => filesOf(folder, { after, pageSize: pageSize + 1 }, signal),
  });
  const goTo = (page: string | undefined): void => {
    void navigate({
      to: ".",
      search: { ...(dir === "" ? {} : { dir }), ...(page === undefined ? {} : { after: page }) },
    });
  };
  return (
    <>
      <div className="title">
        <Trail {...folder} />
        <Button variant="default" className="end" onClick={() => void files.refetch()}>
          Look again
        </Button>
      </div>
      {mayWrite ? <Upload key={project} {...folder} /> : null}
      <Answer of={files}>
        {(all) => (
          <>
            <Files {...folder} entries={all.slice(0, pageSize)} />
            <PageButtons
              page={after}
              nextToken={all.length <= pageSize ? undefined : all[pageSize - 1]?.name}
              goTo={goTo}
              names={["First", "Next"]}
            />
          </>
        )}
      </Answer>
    </>
  );
}

/** Links to all folders on the way. */
function Trail({ project, dir }: FolderRef): ReactNode {
  const names = dir.split("/").filter((name) => name !== "");
  return (
    <nav aria-label="Folder" className="folders">
      <ol>
        <li>
          <Link to="/projects/$project/volumes" params={{ project }} search={{}}>
            persistent-storage
          </Link>
        </li>
        {names.map((name, at) => (
          <li key={at}>
            <Link
              to="/projects/$project/volumes"
              params={{ project }}
              search={{ dir: names.slice(0, at + 1).join("/") }}
            >
              <Name of={name} />
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function Files({
  project,
  dir,
  entries,
}: FolderRef & { readonly entries: readonly Entry[] }): ReactNode {
  const mayWrite = useMay(project)("volumes.write");
  return (
    <List
      label="Files"
      columns={["Name", { head: "Size", isNumber: true }, "Changed", "", ""]}
      empty={
        mayWrite
          ? "Nothing is here. Upload files, or let an app write some."
          : "Nothing is here. Apps of the project can write files."
      }
      rows={entries.map((entry) => {
        const path = pathIn(dir, entry.name);
        return {
          key: entry.name,
          cells: [
            entry.is_folder ? (
              <Link
                key="name"
                to="/projects/$project/volumes"
                params={{ project }}
                search={{ dir: path }}
              >
                <Name of={`${entry.name}/`} isStrong />
              </Link>
            ) : (
              <Name key="name" of={entry.name} />
            ),
            entry.is_folder ? "" : sizeText(entry.size_bytes),
            <Time key="changed" at={entry.last_modified} />,
            entry.is_folder ? null : <Download key="download" project={project} path={path} />,
            mayWrite ? (
              <Remove key="remove" project={project} path={path} isFolder={entry.is_folder} />
            ) : null,
          ],
        };
      })}
    />
  );
}

function Download({
  project,
  path,
}: {
  readonly project: string;
  readonly path: string;
}): ReactNode {
  const { error, isWaiting, run } = useRun();
  const download = async (): Promise<void> => {
    const params = { path: volumeOf(project), query: { file_path: path } };
    saveFrom(ownAddress((await ask(api.GET(`${volumePath}/download`, { params }))).url));
  };
  return (
    <>
      <button
        type="button"
        className="as-link"
        aria-label={`Download ${path}`}
        aria-disabled={isWaiting}
        onClick={() => void run(download)}
      >
        Download
      </button>
      <p className="error" role="alert">
        {error}
      </p>
    </>
  );
}

type RemoveProps = { readonly project: string; readonly path: string; readonly isFolder: boolean };

function Remove({ project, path, isFolder }: RemoveProps): ReactNode {
  return (
    <Confirm
      what="Remove"
      to={path}
      note={isFolder ? "With all that is in it." : undefined}
      onAct={async () => {
        const params = {
          path: volumeOf(project),
          query: { file_path: isFolder ? `${path}/` : path },
        };
        await ask(api.DELETE(`${volumePath}/rm`, { params }));
        await changed();
      }}
    />
  );
}

type Doubt = {
  readonly files: readonly File[];
  readonly there: readonly File[];
  readonly dir: string;
};

/** Asks before it replaces files that are there. */
function Upload({ project, dir }: FolderRef): ReactNode {
  const [uploads, all] = useUploads(project, () => void changed());
  const [doubt, setDoubt] = useState<Doubt | null>(null);
  const [problem, setProblem] = useState("");
  const send = (files: readonly File[], to: string): void => {
    setDoubt(null);
    uploads.add(files, to === "" ? "" : `${to}/`);
  };
  const choose = async (files: readonly File[]): Promise<void> => {
    setProblem(
      files.length > filesMax
        ? `At most ${filesMax} files at once; ${files.length} were chosen.`
        : "",
    );
    if (files.length === 0 || files.length > filesMax) return;
    // A folder that is not there yet holds nothing; what else is wrong, the upload itself says.
    const entries = await filesOf({ project, dir }, { pageSize: namesMax }).catch(() => []);
    const names = new Set(entries.map(({ name }) => name));
    const there = files.filter(({ name }) => names.has(name));
    if (there.length === 0) send(files, dir);
    else setDoubt({ files, there, dir });
  };
  return (
    <>
      <div className="choices">
        <FileButton
          multiple
          onChange={(files) => void choose(files)}
          inputProps={{ "aria-label": "Files to upload" }}
        >
          {(props) => <Button {...props}>Upload files</Button>}
        </FileButton>
      </div>
      <p className="error" role="alert">
        {problem}
      </p>
      {doubt === null ? null : <Replacing of={doubt} send={send} onClose={() => setDoubt(null)} />}
      <UploadList uploads={uploads} all={all} />
    </>
  );
}

type ReplacingProps = {
  readonly of: Doubt;
  readonly send: (files: readonly File[], dir: string) => void;
  readonly onClose: () => void;
};

const namesShownMax = 10;

function Replacing({ of: { files, there, dir }, send, onClose }: ReplacingProps): ReactNode {
  const others = files.filter((file) => !there.includes(file));
  return (
    <Modal
      opened
      onClose={onClose}
      title="Replace what is there?"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <p>These are in the folder already:</p>
      <ul>
        {there.slice(0, namesShownMax).map(({ name }) => (
          <li key={name}>
            <Name of={name} />
          </li>
        ))}
      </ul>
      {there.length > namesShownMax ? <p>and {there.length - namesShownMax} more</p> : null}
      <div className="choices">
        <Button color="red" onClick={() => send(files, dir)}>
          Upload and replace
        </Button>
        {others.length === 0 ? null : (
          <Button variant="default" onClick={() => send(others, dir)}>
            Upload only the others
          </Button>
        )}
        <Button variant="default" onClick={onClose}>
          Upload nothing
        </Button>
      </div>
    </Modal>
  );
}

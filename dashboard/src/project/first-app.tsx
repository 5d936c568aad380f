// Said of a project without apps: three ways to its first one, with commands that can be copied as
// they are.
import { useState, type ReactNode } from "react";
import { TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { readRepositoryAddress } from "#new-app/repository-address.ts";
import { FieldForm, type FormField } from "#parts/form.tsx";
import { Copyable } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";

/** The three ways; whoever may create no apps is told so. */
export function FirstApp({ project }: { readonly project: string }): ReactNode {
  const may = useMay(project);
  return (
    <>
      <p>No apps yet.</p>
      {may("apps.create") ? (
        <div className="ways">
          <section>
            <h2>From a repository</h2>
            <p>The platform clones it, builds it, and deploys each push to its branch.</p>
            <FromRepository project={project} />
          </section>
          <OtherWays project={project} />
        </div>
      ) : (
        <p className="muted">
          Your role does not allow you to create apps. Ask an owner or an admin of the project.
        </p>
      )}
    </>
  );
}

/** The ways without a repository. */
export function OtherWays({ project }: { readonly project: string }): ReactNode {
  const first = `slipway login --url ${location.origin}\nslipway projects use ${project}\n`;
  return (
    <>
      <section>
        <h2>From a folder, with the command line</h2>
        <p>Sends the files of the folder; no repository is needed.</p>
        <Copyable
          label="commands to deploy a folder"
          text={`${first}slipway init\nslipway deploy`}
        />
      </section>
      <section>
        <h2>Try an example</h2>
        <p>
          <code>slipway init</code> in an empty folder writes a <code>main.py</code> whose function
          is already an endpoint. Or start one of the examples that come with Slipway:
        </p>
        <Copyable
          label="command to deploy an example"
          text={`${first}slipway deploy examples/hello`}
        />
      </section>
    </>
  );
}

const repositoryFields: readonly FormField[] = [
  {
    name: "gitRepo",
    label: "Repository",
    hint: "In the form owner/repo, or its address.",
    autoComplete: "off",
    spellCheck: false,
    required: true,
    placeholder: "acme/app",
  },
  {
    name: "name",
    label: "Name of the app",
    hint: "3 to 30 lowercase letters, digits and dashes.",
    autoComplete: "off",
    spellCheck: false,
    required: true,
  },
  {
    name: "gitBranch",
    label: "Branch",
    hint: "Or a tag or a commit, which no push moves.",
    autoComplete: "off",
    spellCheck: false,
    placeholder: "main",
  },
];

function FromRepository({ project }: { readonly project: string }): ReactNode {
  const navigate = useNavigate();
  const [isFolder, setFolder] = useState(false);
  return (
    <FieldForm
      label="Deploy a repository"
      submit="Deploy"
      fields={repositoryFields}
      more={
        isFolder ? (
          <TextInput
            name="gitPath"
            label="Folder in the repository"
            autoComplete="off"
            spellCheck={false}
          />
        ) : (
          <button type="button" className="as-link" onClick={() => setFolder(true)}>
            The app is in a folder of the repository
          </button>
        )
      }
      after={
        <p>
          <Link to="/projects/$project/new" params={{ project }}>
            All settings and environment variables
          </Link>
        </p>
      }
      onSubmit={async ({ gitRepo = "", name = "", gitBranch = "", gitPath = "" }) => {
        const body = {
          name,
          ...readRepositoryAddress(gitRepo),
          ...(gitBranch === "" ? {} : { gitBranch }),
          ...(gitPath === "" ? {} : { gitPath }),
        };
        const path = { project_id: project };
        const { appId, buildId } = await ask(
          api.POST("/v2/projects/{project_id}/apps/git", { params: { path }, body }),
        );
        await navigate({
          to: "/projects/$project/apps/$app/builds/$build",
          params: { project, app: appId, build: buildId },
        });
      }}
    />
  );
}

// The domains of an app: each with its state, the DNS record that proves it, and what was found in
// DNS instead.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { CertificateEnd, CertificateState, CertificateTrouble } from "#parts/certificate.tsx";
import { Confirm } from "#parts/confirm.tsx";
import { Action, FieldForm } from "#parts/form.tsx";
import { Name } from "#parts/name.tsx";
import { Answer, Copyable, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, queryClient, slowRefreshMs, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

const listPath = "/v2/projects/{project_id}/apps/{app_id}/domains";
const onePath = "/v2/projects/{project_id}/apps/{app_id}/domains/{domain}";

const domainsOf = (ref: AppRef, signal: AbortSignal) =>
  ask(api.GET(listPath, { params: { path: pathOf(ref) }, signal }));
type Domain = Awaited<ReturnType<typeof domainsOf>>[number];

const changed = (): Promise<void> => queryClient.invalidateQueries({ queryKey: ["domains"] });

/** The page. */
export function DomainsPage(): ReactNode {
  const ref = useApp();
  const [said, setSaid] = useState("");
  const mayChange = useMay(ref.project)("apps.update");
  useTitle("Domains", ref.app);
  const domains = useQuery({
    queryKey: ["domains", ref],
    queryFn: ({ signal }) => domainsOf(ref, signal),
    refetchInterval: slowRefreshMs,
  });
  const add = async (name: string): Promise<void> => {
    const added = await ask(api.POST(listPath, { params: { path: pathOf(ref) }, body: { name } }));
    setSaid(`${added.name} was added.`);
    await changed();
  };
  return (
    <>
      <p className="muted">
        Names of its own on which the app answers. A record in DNS proves that a name is yours.
      </p>
      <Answer of={domains}>
        {(all) =>
          all.length === 0 ? (
            <p className="muted">The app has no domains.</p>
          ) : (
            all.map((domain) => (
              <DomainSection key={domain.name} of={domain} mayChange={mayChange} onSaid={setSaid} />
            ))
          )
        }
      </Answer>
      <p role="status">{said}</p>
      {mayChange ? <AddDomain key={said} onAdd={add} /> : null}
    </>
  );
}

function AddDomain({ onAdd }: { readonly onAdd: (name: string) => Promise<void> }): ReactNode {
  return (
    <section className="narrow">
      <h2>Add a domain</h2>
      <FieldForm
        label="Add a domain"
        submit="Add it"
        fields={[
          {
            name: "name",
            label: "Domain",
            hint: "A host name without a scheme or a path.",
            autoComplete: "off",
            spellCheck: false,
            required: true,
            placeholder: "shop.example.org",
          },
        ]}
        onSubmit={({ name = "" }) => onAdd(name.trim())}
      />
    </section>
  );
}

type SectionProps = {
  readonly of: Domain;
  readonly mayChange: boolean;
  readonly onSaid: (text: string) => void;
};

function DomainSection({ of: domain, mayChange, onSaid }: SectionProps): ReactNode {
  const ref = useApp();
  const { name, state, found, checkedAt, certificate } = domain;
  const path = { ...pathOf(ref), domain: name };
  const check = async (): Promise<void> => {
    const checked = await ask(api.POST(`${onePath}/check`, { params: { path } }));
    onSaid(`${name} is ${checked.state.toLowerCase()}.`);
    await changed();
  };
  const remove = async (): Promise<void> => {
    onSaid((await ask(api.DELETE(onePath, { params: { path } }))).message);
    await changed();
  };
  const isProven = state === "Validated" && found === null;
  return (
    <section aria-label={name}>
      <h2>
        <Name of={name} isStrong /> <State of={state} />
      </h2>
      {isProven ? null : <Missing of={domain} />}
      {certificate === null ? null : <CertificateLine of={certificate} />}
      <p className="muted">
        Last checked: {checkedAt === null ? "not yet" : <Time at={checkedAt} />}
      </p>
      {mayChange ? (
        <div className="row">
          <Action label={`Check now: ${name}`} onAct={check}>
            Check now
          </Action>
          <Confirm
            what="Remove"
            to={name}
            note="The app no longer answers on this name."
            onAct={remove}
          />
        </div>
      ) : null}
    </section>
  );
}

function CertificateLine({
  of: certificate,
}: {
  readonly of: NonNullable<Domain["certificate"]>;
}): ReactNode {
  const { endsAt, lastError } = certificate;
  return (
    <p className={lastError === null ? "muted" : "attention"}>
      Certificate: <CertificateState of={certificate} />
      {endsAt === null ? null : (
        <>
          , until <CertificateEnd at={endsAt} />
        </>
      )}
      . <CertificateTrouble of={certificate} />
    </p>
  );
}

/** What is missing in DNS, and the records to create. */
function Missing({
  of: { name, state, found, failsAt, cname, txt, host },
}: {
  readonly of: Domain;
}): ReactNode {
  return (
    <>
      {found === null ? null : (
        <p className="attention">
          Found instead: <Name of={found} />
        </p>
      )}
      {failsAt === null ? null : (
        <p className="muted">
          {state === "Validated" ? "The app answers on it until " : "It is looked for until "}
          <Time at={failsAt} />.
        </p>
      )}
      <p>Create this record in DNS:</p>
      {cname === null ? null : (
        <>
          <Copyable
            label={`the CNAME record of ${name}`}
            text={`${cname.name}. CNAME ${cname.value}.`}
          />
          <p>Or, where a CNAME is not possible, this one:</p>
        </>
      )}
      <Copyable label={`the TXT record of ${name}`} text={`${txt.name}. TXT "${txt.value}"`} />
      <p className="muted">
        With the TXT record, the name must also lead to {host} (A, AAAA or CNAME).
      </p>
    </>
  );
}

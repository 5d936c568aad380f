// The TLS certificates that the platform gets by itself: first those with which something is wrong.
// Each can be requested at once, or revoked.
import { useState, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { revocationFields } from "@slipway/contract/certificate-fields.ts";
import { api, ask } from "#api.ts";
import {
  CertificateEnd,
  CertificateState,
  CertificateTrouble,
  NextTry,
  type Certificate,
} from "#parts/certificate.tsx";
import { Confirm } from "#parts/confirm.tsx";
import { Action } from "#parts/form.tsx";
import { List, type Row } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { PageButtons, pagesInOrder, useGoToPage } from "#parts/page-buttons.tsx";
import { Answer, useTitle } from "#parts/show.tsx";
import { queryClient, slowRefreshMs } from "#queries.ts";

const certificatesPath = "/v2/operator/certificates";
const onePath = `${certificatesPath}/{certificate}` as const;
const reasons = revocationFields.reason.choices;

type Reason = (typeof reasons)[number];

type Named = Certificate & { readonly name: string };

async function readCertificates(page: string | undefined, signal: AbortSignal) {
  const query = { nextToken: page };
  const { items, nextToken } = await ask(api.GET(certificatesPath, { params: { query }, signal }));
  const all = items.map((one): Named => ({
    name: one.name,
    state: one.state,
    endsAt: one.ends_at,
    nextTryAt: one.next_try_at,
    failingSince: one.failing_since,
    lastError: one.last_error,
  }));
  return { all, nextToken };
}

/** The page. */
export function CertificatesPage(): ReactNode {
  const { page } = useSearch({ strict: false });
  const goTo = useGoToPage();
  const [said, setSaid] = useState("");
  const certificates = useQuery({
    queryKey: ["certificates", page],
    queryFn: ({ signal }) => readCertificates(page, signal),
    placeholderData: (before) => before,
    refetchInterval: slowRefreshMs,
  });
  useTitle("Certificates", "Operator");
  return (
    <>
      <h1>Certificates</h1>
      <p role="status">{said}</p>
      <Answer of={certificates}>
        {({ all, nextToken }) => (
          <>
            <List
              label="Certificates"
              columns={["Name", "State", "Valid until", "Next request", ""]}
              empty={<None />}
              rows={all.map((one) => rowOf(one, setSaid))}
            />
            <PageButtons page={page} nextToken={nextToken} goTo={goTo} names={pagesInOrder} />
          </>
        )}
      </Answer>
      <Files />
    </>
  );
}

/** The certificates in files of the operator, if there are any. */
function Files(): ReactNode {
  const files = useQuery({
    queryKey: ["certificates", "files"],
    queryFn: ({ signal }) => ask(api.GET("/v2/operator/certificate-files", { signal })),
    refetchInterval: slowRefreshMs,
  });
  return (
    <Answer of={files}>
      {(all) =>
        all.length === 0 ? null : (
          <section>
            <h2>In files</h2>
            <p className="muted">
              The setting <code>SLIPWAY_TLS_CERTIFICATE</code> names these files. To renew one,
              replace its file and that of its key.
            </p>
            <List
              label="Certificates in files"
              columns={["Names", "State", "Valid until", "File"]}
              rows={all.map(({ file, names, ends_at: endsAt }) => ({
                key: file,
                cells: [
                  <Name key="names" of={names.join(", ")} isStrong />,
                  <CertificateState
                    key="state"
                    of={{ state: Date.parse(endsAt) > Date.now() ? "valid" : "ended" }}
                  />,
                  <CertificateEnd key="end" at={endsAt} />,
                  <Name key="file" of={file} />,
                ],
              }))}
            />
          </section>
        )
      }
    </Answer>
  );
}

function None(): ReactNode {
  return (
    <>
      The platform gets no certificates by itself. The settings <code>SLIPWAY_ACME_EMAIL</code> and{" "}
      <code>SLIPWAY_ACME_AGREE_TO_TERMS</code> have it request and renew them; the guide “Domains
      and TLS” says how.
    </>
  );
}

function rowOf(one: Named, onSaid: (text: string) => void): Row {
  const cells = [
    <Name key="name" of={one.name} isStrong />,
    <CertificateState key="state" of={one} />,
    <CertificateEnd key="end" at={one.endsAt} />,
    <NextTry key="next" at={one.nextTryAt} />,
    <Actions key="actions" of={one} onSaid={onSaid} />,
  ];
  if (one.lastError === null) return { key: one.name, cells };
  const below = (
    <p className="attention">
      <CertificateTrouble of={one} />
    </p>
  );
  return { key: one.name, cells, below };
}

type ActionsProps = { readonly of: Named; readonly onSaid: (text: string) => void };

function Actions({ of: { name, state, endsAt }, onSaid }: ActionsProps): ReactNode {
  const [reason, setReason] = useState<Reason>(revocationFields.reason.default);
  const path = { certificate: name };
  const renew = async (): Promise<void> => {
    await ask(api.POST(`${onePath}/renew`, { params: { path } }));
    onSaid(`A certificate for ${name} is requested.`);
    await changed();
  };
  const revoke = async (): Promise<void> => {
    await ask(api.POST(`${onePath}/revoke`, { params: { path }, body: { reason } }));
    onSaid(`The certificate of ${name} is being revoked, and another one requested.`);
    await changed();
  };
  const choices = (
    <NativeSelect
      size="xs"
      label="Reason"
      description={revocationFields.reason.about}
      value={reason}
      data={reasons.map((value) => ({ value, label: value.replaceAll("_", " ") }))}
      onChange={({ currentTarget }) => {
        const chosen = reasons.find((one) => one === currentTarget.value);
        if (chosen !== undefined) setReason(chosen);
      }}
    />
  );
  const request = endsAt === null ? "Request" : "Renew";
  const isRevocable = state !== "revoking" && endsAt !== null && Date.parse(endsAt) > Date.now();
  return (
    <div className="row">
      <Action size="compact-xs" label={`${request} the certificate of ${name}`} onAct={renew}>
        {request}
      </Action>
      {isRevocable ? (
        <Confirm
          what="Revoke"
          to={`the certificate of ${name}`}
          note={
            <>
              Until another one is there, clients are refused.
              {choices}
            </>
          }
          onAct={revoke}
        />
      ) : null}
    </div>
  );
}

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["certificates"] });
}

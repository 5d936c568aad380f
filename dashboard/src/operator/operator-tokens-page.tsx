// The operators' tokens: list, issue, replace, revoke. A token is shown once.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Once } from "#parts/once.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";
import { queryClient } from "#queries.ts";

const tokensPath = "/v2/operator/tokens";

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["operator tokens"] });
}

/** The page. */
export function OperatorTokensPage(): ReactNode {
  const [issued, setIssued] = useState<string | null>(null);
  const tokens = useQuery({
    queryKey: ["operator tokens"],
    queryFn: ({ signal }) => ask(api.GET(tokensPath, { signal })),
  });
  useTitle("Tokens", "Operator");
  return (
    <>
      <h1>Operators&apos; tokens</h1>
      <p className="muted">Whoever has one may do everything in all projects.</p>
      {issued === null ? null : (
        <Once label="the new token" text={issued}>
          The new token. It is shown only now: copy it.
        </Once>
      )}
      <Answer of={tokens}>
        {(all) => (
          <List
            label="Operators' tokens"
            columns={["Name", "State", "Created", "Expires", "Last used", "From", ""]}
            empty="No tokens."
            rows={all.map((one) => ({
              key: one.id,
              cells: [
                <bdi key="name" className="strong">
                  {one.name}
                </bdi>,
                <State key="state" of={one.state} />,
                <Time key="created" at={one.created_at} />,
                one.expires_at === null ? "never" : <Time key="expires" at={one.expires_at} />,
                one.last_used_at === null ? "never" : <Time key="used" at={one.last_used_at} />,
                one.last_used_address ?? "",
                one.state === "active" ? (
                  <Changes key="changes" id={one.id} name={one.name} onToken={setIssued} />
                ) : null,
              ],
            }))}
          />
        )}
      </Answer>
      <NewToken onToken={setIssued} />
    </>
  );
}

function NewToken({ onToken }: { readonly onToken: (token: string) => void }): ReactNode {
  const [round, setRound] = useState(0);
  return (
    <section className="narrow">
      <h2>New token</h2>
      <FieldForm
        key={round}
        label="New token"
        submit="Issue token"
        fields={[
          {
            name: "name",
            label: "Name",
            hint: "Shown here and in the audit log.",
            autoComplete: "off",
            required: true,
          },
          {
            name: "expires_at",
            label: "Expires",
            hint: "Empty: never.",
            autoComplete: "off",
            placeholder: "2027-01-31T12:00:00Z",
          },
        ]}
        onSubmit={async ({ name = "", expires_at: end = "" }) => {
          const body = { name, ...(end === "" ? {} : { expires_at: end }) };
          onToken((await ask(api.POST(tokensPath, { body }))).token);
          setRound(round + 1);
          await changed();
        }}
      />
    </section>
  );
}

type ChangesProps = {
  readonly id: string;
  readonly name: string;
  readonly onToken: (token: string) => void;
};

function Changes({ id, name, onToken }: ChangesProps): ReactNode {
  const params = { path: { token_id: id } };
  return (
    <div className="row">
      <Confirm
        what="Replace"
        to={name}
        note="A new token is issued; the one before stays valid for a day."
        onAct={async () => {
          onToken(
            (await ask(api.POST(`${tokensPath}/{token_id}/rotate`, { params, body: {} }))).token,
          );
          await changed();
        }}
      />
      <Confirm
        what="Revoke"
        to={name}
        note="It is refused at once. The last token cannot be revoked."
        onAct={async () => {
          await ask(api.DELETE(`${tokensPath}/{token_id}`, { params }));
          await changed();
        }}
      />
    </div>
  );
}

// A list of service accounts or of keys for calling apps, with what can be done with each: a new
// token in place of the present one, and an end to all of them.
import { useState, type ReactNode } from "react";
import { Modal, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { Answer, State, Time } from "#parts/show.tsx";

/** What both kinds have in common. */
type Account = {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
  readonly last_used_address: string | null;
  readonly tokens: readonly { readonly state: string; readonly expires_at: string | null }[];
};

/** When a new token ends. */
export const expiries = [
  { value: "30", label: "in 30 days" },
  { value: "90", label: "in 90 days" },
  { value: "365", label: "in a year" },
] as const;
const dayMs = 86_400_000;

/** The time in so many days, as the API takes it; empty: left to the API. */
export function expiryOf(days: string): { expires_at?: string } {
  return days === ""
    ? {}
    : { expires_at: new Date(Date.now() + Number(days) * dayMs).toISOString() };
}

/** The body of a rotation. */
export type Rotation = { readonly overlap_seconds: number; readonly expires_at?: string };

type TokenListProps<One extends Account> = {
  readonly label: string;
  readonly empty: string;
  readonly queryKey: readonly unknown[];
  readonly read: (signal: AbortSignal) => Promise<readonly One[]>;
  /** A column that only one kind has. */
  readonly own: { readonly head: string; readonly of: (one: One) => string };
  readonly mayWrite: boolean;
  readonly revoke: (id: string) => Promise<void>;
  readonly rotate: (id: string, rotation: Rotation) => Promise<void>;
};

/** The list. */
export function TokenList<One extends Account>(props: TokenListProps<One>): ReactNode {
  const { label, empty, queryKey, read, own, mayWrite, revoke, rotate } = props;
  const accounts = useQuery({
    queryKey,
    queryFn: ({ signal }) => read(signal),
    // A reading of keys can be an entry of the audit log.
    refetchOnWindowFocus: false,
  });
  const [rotated, setRotated] = useState<string | null>(null);
  return (
    <Answer of={accounts}>
      {(all) => (
        <>
          <List
            label={label}
            columns={["Name", own.head, "State", "Created", "Expires", "Last used", ""]}
            empty={empty}
            rows={all.map((one) => ({
              key: one.id,
              cells: [
                <Name key="name" of={one.name} isStrong />,
                own.of(one),
                <StateOf key="state" of={one} />,
                <Time key="created" at={one.created_at} />,
                one.expires_at === null ? "never" : <Time key="expires" at={one.expires_at} />,
                <LastUse key="used" of={one} />,
                mayWrite && one.state === "active" ? (
                  <Actions
                    key="actions"
                    on={one}
                    onRotate={() => setRotated(one.id)}
                    revoke={() => revoke(one.id)}
                  />
                ) : null,
              ],
            }))}
          />
          {all
            .filter(({ id, state }) => id === rotated && state === "active")
            .map((one) => (
              <Rotate
                key={one.id}
                of={one}
                onClose={() => setRotated(null)}
                rotate={async (rotation) => {
                  await rotate(one.id, rotation);
                  setRotated(null);
                }}
              />
            ))}
        </>
      )}
    </Answer>
  );
}

type OfAccount = { readonly of: Account };

type ActionsProps = {
  readonly on: Account;
  readonly onRotate: () => void;
  readonly revoke: () => Promise<void>;
};

function Actions({ on: { name }, onRotate, revoke }: ActionsProps): ReactNode {
  return (
    <div className="row">
      <button type="button" className="as-link" aria-label={`Rotate ${name}`} onClick={onRotate}>
        Rotate
      </button>
      <Confirm what="Revoke" to={name} note="Whoever uses it is refused at once." onAct={revoke} />
    </div>
  );
}

function LastUse({ of: { last_used_at: at, last_used_address: address } }: OfAccount): ReactNode {
  if (at === null) return "never";
  return (
    <span title={`from ${address ?? "an unknown address"}`}>
      <Time at={at} />
    </span>
  );
}

/** Two tokens are valid while users are changed over to the new one. */
function StateOf({ of: { state, tokens } }: OfAccount): ReactNode {
  const [, previous] = tokens.filter((token) => token.state === "active");
  return (
    <>
      <State of={state} />
      {previous === undefined ? null : (
        <span className="note">
          The previous token is valid, too
          {previous.expires_at === null ? (
            ""
          ) : (
            <>, until {new Date(previous.expires_at).toLocaleString()}</>
          )}
          .
        </span>
      )}
    </>
  );
}

const overlaps = [
  { value: "0", label: "not at all" },
  { value: "3600", label: "for an hour" },
  { value: "86400", label: "for a day" },
  { value: "604800", label: "for a week" },
  { value: "2592000", label: "for 30 days" },
];

type RotateProps = {
  readonly of: Account;
  readonly rotate: (rotation: Rotation) => Promise<void>;
  readonly onClose: () => void;
};

function Rotate({ of: { name }, rotate, onClose }: RotateProps): ReactNode {
  return (
    <Modal
      opened
      onClose={onClose}
      title={
        <>
          A new token for <Name of={name} />
        </>
      }
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <FieldForm
        label={`A new token for ${name}`}
        submit="Issue the new token"
        fields={[]}
        more={
          <>
            <NativeSelect
              data-autofocus
              name="overlap"
              label="The present token stays valid"
              description="So that you can change what uses it. While two are valid, another one can be issued only when both end."
              data={overlaps}
              defaultValue="86400"
            />
            <NativeSelect
              name="days"
              label="The new token expires"
              data={[{ value: "", label: "after as long as the present one" }, ...expiries]}
            />
          </>
        }
        onSubmit={({ overlap, days = "" }) =>
          rotate({ overlap_seconds: Number(overlap), ...expiryOf(days) })
        }
      />
    </Modal>
  );
}

// Forms: each field with its label and its hint, a button that waits, and an error that is read
// out; and buttons that do something by themselves.
import { useRef, useState, type ReactNode } from "react";
import { Button, TextInput, type ButtonProps } from "@mantine/core";
import { messageOf } from "#api.ts";

/** An input; what is not named here are its attributes. */
export type FormField = {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly type?: string;
  readonly autoComplete: string;
  readonly autoCapitalize?: string;
  readonly spellCheck?: boolean;
  readonly required?: boolean;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly min?: number | string;
  readonly max?: number;
  readonly step?: number | "any";
  readonly readOnly?: boolean;
  readonly defaultValue?: string;
  readonly placeholder?: string;
  readonly autoFocus?: boolean;
};

type FormProps = {
  readonly label: string;
  readonly fields: readonly FormField[];
  readonly submit: string;
  /** Gets the values by name. What it throws is shown below the fields. */
  readonly onSubmit: (values: Readonly<Record<string, string>>) => Promise<void>;
  readonly before?: ReactNode;
  /** Further fields, below those of the list. */
  readonly more?: ReactNode;
  readonly after?: ReactNode;
};

/** A form. */
export function FieldForm({
  label,
  fields,
  submit,
  onSubmit,
  before,
  more,
  after,
}: FormProps): ReactNode {
  const element = useRef<HTMLFormElement>(null);
  const { error, isWaiting, run } = useRun();
  const send = async (): Promise<void> => {
    const form = element.current;
    if (form === null) return;
    if (!(await run(() => onSubmit(textsOf(form))))) focusOn(form);
  };
  return (
    <form
      ref={element}
      className="form"
      aria-label={label}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {before}
      {fields.map(({ hint, ...field }) => (
        <TextInput key={field.name} description={hint} {...field} />
      ))}
      {more}
      <p className="error" role="alert">
        {error}
      </p>
      <div>
        {/* Not disabled while it waits: the focus would be lost with it. */}
        <Button type="submit" aria-disabled={isWaiting}>
          {submit}
        </Button>
      </div>
      {after}
    </form>
  );
}

/** What is typed into a form, by the names of its fields. */
export function textsOf(form: HTMLFormElement): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...new FormData(form)].map(([name, value]) => [name, typeof value === "string" ? value : ""]),
  );
}

/** Most often it is the password that was mistyped. */
function focusOn(form: HTMLFormElement): void {
  const open = [...form.querySelectorAll("input")].filter(
    (input) => !input.readOnly && input.type !== "hidden",
  );
  (open.find(({ type }) => type === "password") ?? open[0])?.focus();
}

type ActionProps = ButtonProps & {
  readonly children: ReactNode;
  /** For readers of the screen, where the text alone does not say what it is done to. */
  readonly label?: string;
  readonly onAct: () => Promise<void>;
};

/** A button that does something, with its error below. */
export function Action({ children, label, onAct, ...props }: ActionProps): ReactNode {
  const { error, isWaiting, run } = useRun();
  return (
    <div className="action">
      <Button
        variant="default"
        {...props}
        aria-label={label}
        aria-disabled={isWaiting}
        onClick={() => void run(onAct)}
      >
        {children}
      </Button>
      <p className="error" role="alert">
        {error}
      </p>
    </div>
  );
}

type Run = {
  readonly error: string;
  readonly isWaiting: boolean;
  /** Resolves with whether it went well; one at a time. */
  readonly run: (work: () => Promise<void>) => Promise<boolean>;
};

/** One thing at a time, with what went wrong. */
export function useRun(): Run {
  const [error, setError] = useState("");
  const [isWaiting, setWaiting] = useState(false);
  const run = async (work: () => Promise<void>): Promise<boolean> => {
    if (isWaiting) return true;
    setError("");
    setWaiting(true);
    try {
      await work();
      return true;
    } catch (cause) {
      setError(messageOf(cause));
      return false;
    } finally {
      setWaiting(false);
    }
  };
  return { error, isWaiting, run };
}

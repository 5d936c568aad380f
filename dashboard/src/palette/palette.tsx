// The command palette: what is typed narrows the list, arrows choose, Enter does it. A native
// dialog keeps the focus inside and returns it to where it was; loaded when it is first opened.
import {
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactNode,
} from "react";
import { messageOf } from "#api.ts";
import { useCommands, type Command } from "./commands.ts";
import { matching } from "./match.ts";

/** A longer list is narrowed by typing on. */
const shownMax = 50;

/** A dialog that is open as long as it is rendered. */
export function Dialog({
  label,
  onClose,
  children,
}: {
  readonly label: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    if (element?.open === false) element.showModal();
    // Removed without being closed before, it would not give the focus back.
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className="palette"
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClose={() => {
        // The event comes later than the close, maybe when the dialog is long gone.
        if (dialog.current !== null) onClose();
      }}
      onClick={({ target }) => {
        if (target === dialog.current) onClose();
      }}
    >
      {children}
    </dialog>
  );
}

/** The palette, open. */
export function Palette({ onClose }: { readonly onClose: () => void }): ReactNode {
  return (
    <Dialog label="Search and commands" onClose={onClose}>
      <Choice onClose={onClose} />
    </Dialog>
  );
}

function Choice({ onClose }: { readonly onClose: () => void }): ReactNode {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [problem, setProblem] = useState("");
  const id = useId();
  const found = matching(typed, useCommands(), ({ name }) => name).slice(0, shownMax);
  const chosen = Math.min(at, found.length - 1);
  const optionId = (index: number): string => `${id}-${index}`;
  useEffect(() => {
    document.getElementById(optionId(chosen))?.scrollIntoView({ block: "nearest" });
  });
  const run = (command: Command | undefined): void => {
    if (command === undefined) return;
    // Where the page changes, the focus is back before it does.
    onClose();
    Promise.try(command.run).catch((error: unknown) => setProblem(messageOf(error)));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return;
    const step = stepOf(event.key);
    if (step !== 0 && found.length > 0) setAt((chosen + step + found.length) % found.length);
    if (event.key === "Enter") run(found[chosen]);
    if (step !== 0 || event.key === "Enter") event.preventDefault();
  };
  return (
    <>
      <input
        className="palette-input"
        type="text"
        role="combobox"
        aria-label="Search pages, apps, projects and actions"
        aria-expanded={found.length > 0}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={found.length === 0 ? undefined : optionId(chosen)}
        placeholder="Go to a page, an app or a project, or do something"
        autoComplete="off"
        spellCheck={false}
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={id} role="listbox" aria-label="Results" className="palette-list">
        {found.map((command, index) => (
          <li
            key={command.key}
            id={optionId(index)}
            role="option"
            aria-selected={index === chosen}
            onPointerMove={() => setAt(index)}
            onClick={() => run(command)}
          >
            <bdi>{command.name}</bdi>
            <span className="muted">{command.note}</span>
          </li>
        ))}
      </ul>
      <p className="palette-note muted" role="status">
        {found.length === 0 ? "Nothing has this name." : problem}
      </p>
    </>
  );
}

/** How far the key moves the choice. */
function stepOf(key: string): number {
  if (key === "ArrowDown") return 1;
  return key === "ArrowUp" ? -1 : 0;
}

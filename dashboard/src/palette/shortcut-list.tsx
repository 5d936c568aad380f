// The keys that work everywhere, and a switch for those that are a single letter.
import { useState, type ReactNode } from "react";
import { Button, Checkbox } from "@mantine/core";
import { usePageCommands } from "./commands.ts";
import { Dialog } from "./palette.tsx";
import { areSingleKeysOn, pageKeys, setSingleKeys } from "./shortcuts.ts";

/** The dialog. */
export function ShortcutList({ onClose }: { readonly onClose: () => void }): ReactNode {
  const [areOn, setOn] = useState(areSingleKeysOn);
  const here = new Set(usePageCommands().map(({ name }) => name));
  const pages = Object.entries(pageKeys).filter(([, name]) => here.has(name));
  const keys: readonly (readonly [string, readonly string[]])[] = [
    ["Search and commands", ["Ctrl K", "/"]],
    ["New app", ["c"]],
    ["All projects", ["g p"]],
    ...pages.map(([key, name]) => [name, [`g ${key}`]] as const),
    ["These shortcuts", ["?"]],
  ];
  return (
    <Dialog label="Keyboard shortcuts" onClose={onClose}>
      <div className="palette-page">
        <h2>Keyboard shortcuts</h2>
        <dl className="keys">
          {keys.map(([name, all]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                {all.map((one) => (
                  <kbd key={one}>{one}</kbd>
                ))}
              </dd>
            </div>
          ))}
        </dl>
        <Checkbox
          size="xs"
          label="Shortcuts without Ctrl"
          checked={areOn}
          onChange={({ currentTarget: { checked } }) => {
            setSingleKeys(checked);
            setOn(checked);
          }}
        />
        <Button variant="default" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

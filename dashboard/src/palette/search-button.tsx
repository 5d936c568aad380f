// Opens the command palette, by a button and by keys, and goes to pages by "g" and a letter. The
// palette itself is loaded when it is first wanted.
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { ActionIcon } from "@mantine/core";
import { useNavigate, useParams } from "@tanstack/react-router";
import { Icon } from "#parts/show.tsx";
import { usePageCommands } from "./commands.ts";
import { areSingleKeysOn, isForOthers, pageKeys } from "./shortcuts.ts";

const Palette = lazy(async () => ({ default: (await import("./palette.tsx")).Palette }));
const ShortcutList = lazy(async () => ({
  default: (await import("./shortcut-list.tsx")).ShortcutList,
}));

/** So long after "g" a letter names a page. */
const secondKeyMs = 1_500;

/** The button, for whoever is signed in. */
export function SearchButton(): ReactNode {
  const [open, setOpen] = useState<"palette" | "shortcuts" | null>(null);
  useKeys(setOpen);
  const onClose = (): void => setOpen(null);
  return (
    <>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label="Search and commands"
        aria-keyshortcuts="Control+K Meta+K"
        title="Search and commands (Ctrl K)"
        onClick={() => setOpen("palette")}
      >
        <Icon name="search" />
      </ActionIcon>
      <Suspense fallback={null}>
        {open === "palette" ? <Palette onClose={onClose} /> : null}
        {open === "shortcuts" ? <ShortcutList onClose={onClose} /> : null}
      </Suspense>
    </>
  );
}

function useKeys(setOpen: (open: "palette" | "shortcuts") => void): void {
  const { project } = useParams({ strict: false });
  const navigate = useNavigate();
  const pages = usePageCommands();
  const onKey = useRef<(event: KeyboardEvent) => boolean>(() => false);
  const goesAtMs = useRef(Number.NEGATIVE_INFINITY);
  const onLetter = (event: KeyboardEvent): boolean => {
    const isSecond = event.timeStamp - goesAtMs.current < secondKeyMs;
    goesAtMs.current = event.key === "g" && !isSecond ? event.timeStamp : Number.NEGATIVE_INFINITY;
    if (isSecond) {
      const name = event.key === "p" ? "Projects" : pageKeys[event.key];
      const page = pages.find((one) => one.name === name);
      void page?.run();
      return page !== undefined;
    }
    if (event.key === "/") setOpen("palette");
    if (event.key === "?") setOpen("shortcuts");
    const isNew = event.key === "c" && project !== undefined;
    if (isNew) void navigate({ to: "/projects/$project/new", params: { project } });
    return isNew || event.key === "/" || event.key === "?";
  };
  onKey.current = (event) => {
    if (
      (event.ctrlKey || event.metaKey) &&
      !event.altKey &&
      !event.shiftKey &&
      event.key.toLowerCase() === "k"
    ) {
      if (document.querySelector("dialog[open], [role=dialog]") === null) setOpen("palette");
      return true;
    }
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    return isPlain && areSingleKeysOn() && !isForOthers(event) && onLetter(event);
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (onKey.current(event)) event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

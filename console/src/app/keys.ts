// Single keys of pages. They do nothing while a field has the focus or a dialog is open.
import { useEffect, useRef } from "preact/hooks";
import { prefs } from "./prefs";

export interface Key {
  keys: string; // "j", "Escape", "g r" for one after the other
  does: string;
  run(e: KeyboardEvent): void;
}

interface Group { title: string; list: Key[] }

const groups: Group[] = [];
let first = "";
let firstAt = 0;

const typing = (e: KeyboardEvent) => {
  const t = e.target as HTMLElement;
  return t.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(t.tagName);
};

function handle(e: KeyboardEvent) {
  if (e.ctrlKey && e.key.toLowerCase() === "k") return run("/", e);
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (typing(e)) {
    if (e.key === "Escape") (e.target as HTMLElement).blur();
    return;
  }
  if (!prefs().keys && e.key.length === 1) return;
  if (e.key === "Enter" || e.key === " ") return;
  const name = e.shiftKey && e.key.length > 1 ? `Shift ${e.key}` : e.key;
  if (first && e.timeStamp - firstAt < 1500) {
    const both = `${first} ${name}`;
    first = "";
    if (run(both, e)) return;
  }
  if (name === "g") {
    first = name;
    firstAt = e.timeStamp;
    return;
  }
  run(name, e);
}

function run(name: string, e: KeyboardEvent): boolean {
  for (const group of [...groups].reverse()) {
    const key = group.list.find((k) => k.keys === name);
    if (key) {
      e.preventDefault();
      key.run(e);
      return true;
    }
  }
  return false;
}

export function startKeys() {
  addEventListener("keydown", handle);
}

// allKeys returns the keys that work at present, those of the page first.
export const allKeys = (): readonly Group[] => [...groups].reverse().filter((g) => g.list.length > 0);

// useKeys makes keys work while the component is shown.
export function useKeys(title: string, list: Key[]) {
  const group = useRef<Group>({ title, list });
  group.current.list = list;
  useEffect(() => {
    groups.push(group.current);
    return () => void groups.splice(groups.indexOf(group.current), 1);
  }, []);
}

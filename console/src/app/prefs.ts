import { useEffect, useState } from "preact/hooks";
import type { Zone } from "../lib/time";

// Prefs are what a reader has chosen on this machine.
export interface Prefs {
  theme: "system" | "light" | "dark";
  zone: Zone;
  density: "dense" | "roomy";
  rail: boolean;
  keys: boolean;
  // views are filters of the list of runs, by the name that the reader gave them.
  views: { name: string; query: string }[];
}

const key = "flowfabric.prefs";
const initial: Prefs = { theme: "system", zone: "local", density: "dense", rail: false, keys: true, views: [] };
const changed = new EventTarget();

function read(): Prefs {
  try {
    return { ...initial, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Prefs>) };
  } catch {
    return initial;
  }
}

let current = read();

export const prefs = () => current;

export function setPrefs(change: Partial<Prefs>) {
  current = { ...current, ...change };
  localStorage.setItem(key, JSON.stringify(current));
  applyTheme();
  changed.dispatchEvent(new Event("change"));
}

export function applyTheme() {
  const html = document.documentElement;
  if (current.theme === "system") html.removeAttribute("data-theme");
  else html.setAttribute("data-theme", current.theme);
}

export function usePrefs(): Prefs {
  const [value, set] = useState(current);
  useEffect(() => {
    const update = () => set(current);
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  return value;
}

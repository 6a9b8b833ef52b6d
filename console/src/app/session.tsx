import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Inspection, Right, ServerInfo } from "../api/types";
import type { Loaded } from "./load";

// Session is who uses the console, and on what.
export interface Session {
  server: ServerInfo;
  // may reports whether an action with this right is offered. A console that is read-only offers none.
  may(right: Right): boolean;
  // reads reports whether payloads are shown.
  reads: boolean;
  // say shows a message in the corner, and reads it out.
  // A link leads to the outcome.
  say(text: string, bad?: boolean, link?: { to: string; text: string }): void;
  // pending is how many asks are open.
  pending: number;
  // health is the inspection of the engine, read again every few seconds; undefined until the first one.
  health: Loaded<Inspection>;
}

// faults are the findings that somebody has to see to.
export const faults = (health: Loaded<Inspection>) => (health.data?.findings ?? []).filter((f) => f.severity !== "info");

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const s = useContext(SessionContext);
  if (!s) throw new Error("there is no session");
  return s;
}

export function mayOf(server: ServerInfo): (right: Right) => boolean {
  const rights = new Set(server.principal.rights ?? []);
  return (right) => rights.has(right) && !(server.read_only && right !== "view" && right !== "payloads:read");
}

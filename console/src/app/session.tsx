import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Right, ServerInfo } from "../api/types";

// Session is who uses the console, and on what.
export interface Session {
  server: ServerInfo;
  // may reports whether an action with this right is offered. A console that is read-only offers none.
  may(right: Right): boolean;
  // reads reports whether payloads are shown.
  reads: boolean;
  // say shows a message in the corner, and reads it out.
  say(text: string, bad?: boolean): void;
  // pending is how many asks are open.
  pending: number;
}

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

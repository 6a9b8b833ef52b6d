// Filters of the list of runs. They are in the address of the page, and become parameters of the API.
import type { Parameters } from "../../api/client";
import { setQuery } from "../../app/router";

export interface Filters {
  q: string; states: string[]; flow: string; tags: string[]; from: string; before: string;
  key: string; // of the runs
  queued: boolean; // only runs that wait in the queue of their key
}

export function filtersOf(query: URLSearchParams): Filters {
  return {
    q: query.get("q") ?? "", states: query.getAll("state"), flow: query.get("flow") ?? "", tags: query.getAll("tag"),
    from: query.get("from") ?? "", before: query.get("before") ?? "",
    key: query.get("key") ?? "", queued: query.get("queued") === "true",
  };
}

export const spans: readonly (readonly [string, string])[] = [
  ["", "Any time"], ["15m", "Last 15 minutes"], ["2h", "Last 2 hours"], ["24h", "Last 24 hours"], ["today", "Today"],
  ["yesterday", "Yesterday"], ["7d", "Last 7 days"],
];

// isMoment reports whether a time is a moment, which the API takes, and not a word of a search.
const isMoment = (from: string) => /^\d{4}-/.test(from);

// searchAt is the present, from which the server counts the times of a search, with the time zone of the reader.
export function searchAt(): string {
  const now = new Date();
  const minutes = -now.getTimezoneOffset();
  const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
  const offset = `${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  const local = new Date(now.getTime() + minutes * 60_000).toISOString().slice(0, 23);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${local}${offset}${zone ? `[${zone}]` : ""}`;
}

// parametersOf returns the parameters of list-runs, count-runs and bulk jobs.
export function parametersOf(f: Filters): Parameters {
  const search = [f.q, isMoment(f.from) ? "" : f.from].filter(Boolean).join(" ");
  const out: Parameters = {
    search: search || undefined, search_at: search ? searchAt() : undefined, flow: f.flow,
    created_from: isMoment(f.from) ? f.from : undefined, created_before: f.before || undefined, state: f.states,
    key: f.key || undefined, queued: f.queued || undefined,
  };
  for (const tag of f.tags) {
    const at = tag.indexOf(":");
    if (at > 0) out[`tag.${tag.slice(0, at)}`] = tag.slice(at + 1);
  }
  return out;
}

// queryText returns the filters as bulk jobs take them.
export function queryText(f: Filters): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(parametersOf(f))) {
    if (Array.isArray(value)) value.forEach((v) => out.append(name, v));
    else if (value) out.set(name, String(value));
  }
  return out.toString();
}

// search takes the words that were typed; the server reads them.
export const search = (text: string) => setQuery({ q: text.trim() });

export const isFiltered = (f: Filters) =>
  !!(f.q || f.flow || f.from || f.before || f.states.length || f.tags.length || f.key || f.queued);

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
  ["", "Any time"], ["15m", "Last 15 minutes"], ["2h", "Last 2 hours"], ["24h", "Last 24 hours"], ["168h", "Last 7 days"],
];

const unit: Record<string, number> = { m: 60_000, h: 3_600_000 };

// fromTime returns the time of "2h" before now, or of an absolute time.
export function fromTime(from: string, now = Date.now()): string | undefined {
  const m = from.match(/^(\d+)([mh])$/);
  if (m) return new Date(now - Number(m[1]) * unit[m[2]!]!).toISOString();
  return from || undefined;
}

// parametersOf returns the parameters of list-runs, count-runs and bulk jobs.
export function parametersOf(f: Filters): Parameters {
  const out: Parameters = {
    text: f.q, flow: f.flow, created_from: fromTime(f.from), created_before: f.before || undefined, state: f.states,
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

const runStates = ["running", "succeeded", "failed", "cancelled", "expired"];

// search takes what was typed: key:value pairs become chips, the rest stays text.
export function search(text: string, f: Filters) {
  const rest: string[] = [];
  const states = new Set(f.states);
  const tags = new Set(f.tags);
  let { flow, key: runKey, queued } = f;
  for (const word of text.trim().split(/\s+/)) {
    const [, key = "", value = ""] = word.match(/^([\w.-]+):(.+)$/) ?? [];
    if (key === "state" && runStates.includes(value)) states.add(value);
    else if (key === "flow") flow = value;
    else if (key === "key") runKey = value;
    else if (word === "is:queued") queued = true;
    else if (key) tags.add(word);
    else if (word) rest.push(word);
  }
  setQuery({ q: rest.join(" "), flow, state: [...states], tag: [...tags], key: runKey, queued: queued ? "true" : undefined });
}

export const isFiltered = (f: Filters) =>
  !!(f.q || f.flow || f.from || f.before || f.states.length || f.tags.length || f.key || f.queued);

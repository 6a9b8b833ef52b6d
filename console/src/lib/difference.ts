// Differences between two JSON values, by the places inside them. Values are compared as text, so large numbers count.
import { items, members } from "./json";

// Line is a line of a value as it is shown, with the place of its value as a JSON pointer.
export interface Line { text: string; at: string; leaf: string | undefined }

const escaped = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");

// linesOf writes a value with one part per line.
export function linesOf(json: string, at = "", indent = 0, before = "", after = ""): Line[] {
  const pad = "  ".repeat(indent);
  const object = members(json);
  const list = object ? undefined : items(json);
  const parts: [string, string, string][] = object?.map(([name, value]) => [escaped(name), `${JSON.stringify(name)}: `, value])
    ?? list?.map((value, i) => [String(i), "", value]) ?? [];
  if (parts.length === 0) return [{ text: pad + before + json.trim() + after, at, leaf: json.trim() }];
  return [
    { text: pad + before + (object ? "{" : "["), at, leaf: undefined },
    ...parts.flatMap(([name, head, value], i) => linesOf(value, `${at}/${name}`, indent + 1, head, i < parts.length - 1 ? "," : "")),
    { text: pad + (object ? "}" : "]") + after, at, leaf: undefined },
  ];
}

export type Mark = "same" | "changed" | "only";

// Change is a place at which two values differ; the text of a side that does not have it is undefined.
export interface Change { at: string; a: string | undefined; b: string | undefined }

// leaves are the values at the ends of a value, by their places.
const leaves = (lines: readonly Line[]) => new Map(lines.flatMap((l) => (l.leaf === undefined ? [] : [[l.at, l.leaf] as const])));

// changesOf lists the places at which two values differ.
export function changesOf(a: readonly Line[], b: readonly Line[]): Change[] {
  const x = leaves(a), y = leaves(b);
  const out: Change[] = [];
  for (const [at, text] of x) if (y.get(at) !== text) out.push({ at, a: text, b: y.get(at) });
  for (const [at, text] of y) if (!x.has(at)) out.push({ at, a: undefined, b: text });
  return out;
}

// marksOf says of each line whether the other value has it, too.
export function marksOf(lines: readonly Line[], other: readonly Line[]): Mark[] {
  const theirs = leaves(other);
  return lines.map((l) => (l.leaf === undefined || theirs.get(l.at) === l.leaf ? "same" : theirs.has(l.at) ? "changed" : "only"));
}

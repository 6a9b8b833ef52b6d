// JSON Schemas that users write. The values in them (enum, const, default) stay JSON text, as all values of users do: their
// numbers may have more digits than a number of this language keeps.
import { items, members } from "./json";
import type { Raw } from "./raw";

export interface Schema {
  type?: string | string[]; title?: string; description?: string; enum?: string[]; const?: string; default?: string;
  properties?: Record<string, Schema>; required?: string[]; items?: Schema; oneOf?: Schema[]; anyOf?: Schema[];
  format?: string; minimum?: number; maximum?: number; minLength?: number; maxLength?: number;
  additionalProperties?: boolean | Schema; $ref?: string; $defs?: Record<string, Schema>;
}

// schemaOf reads the schema of a reply; undefined where there is none.
export const schemaOf = (raw: Raw | undefined): Schema | undefined => raw && parse(raw.text);

// parse reads the text of a schema, which is valid JSON.
function parse(text: string): Schema {
  const out: Record<string, unknown> = {};
  for (const [name, value] of members(text) ?? []) out[name] = part(name, value);
  return out as Schema;
}

function part(name: string, text: string): unknown {
  switch (name) {
    case "enum":
      return items(text) ?? [];
    case "const":
    case "default":
      return text;
    case "properties":
    case "$defs":
      return Object.fromEntries((members(text) ?? []).map(([k, v]) => [k, parse(v)]));
    case "oneOf":
    case "anyOf":
      return (items(text) ?? []).map(parse);
    case "items":
    case "additionalProperties":
      return text[0] === "{" ? parse(text) : JSON.parse(text);
    default:
      return JSON.parse(text);
  }
}

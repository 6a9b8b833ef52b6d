// Forms that are made of a JSON Schema. A form edits JSON text, so that no digit of a number is lost: each field keeps
// the text of its part.
import { useId, useState } from "preact/hooks";
import { items, members } from "../lib/json";
import type { Schema } from "../lib/schema";
import { JsonText } from "./basic";

// typeOf returns the type of a schema, without null.
function typeOf(s: Schema): string {
  if (Array.isArray(s.type)) return s.type.find((t) => t !== "null") ?? "";
  return s.type ?? (s.properties ? "object" : "");
}

// resolve follows a reference of a schema to its definition.
export function resolve(s: Schema, all: Schema): Schema {
  const name = s.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1];
  if (!name) return s;
  const { $ref: _followed, ...rest } = s;
  return { ...all.$defs?.[name], ...rest };
}

// Draft is the text of a value while it is edited: a leaf, or parts.
export type Draft =
  | { kind: "leaf"; text: string }
  | { kind: "object"; fields: Record<string, Draft | undefined> }
  | { kind: "list"; items: Draft[] };

export const leaf = (text: string): Draft => ({ kind: "leaf", text });

// draftOf returns the empty draft of a schema.
export function draftOf(schema: Schema, all = schema, depth = 0): Draft {
  const s = resolve(schema, all);
  if (s.default !== undefined) return fromText(s.default);
  if (s.const !== undefined) return leaf(s.const);
  if (s.enum) return leaf(s.enum.length === 1 ? s.enum[0]! : ""); // nothing is chosen before a person does
  switch (typeOf(s)) {
    case "object": {
      if (!s.properties || depth > 6) return leaf("{}");
      const fields: Record<string, Draft | undefined> = {};
      for (const [name, field] of Object.entries(s.properties)) {
        const wanted = s.required?.includes(name);
        fields[name] = wanted ? draftOf(field, all, depth + 1) : undefined;
      }
      return { kind: "object", fields };
    }
    case "array":
      return { kind: "list", items: [] };
    case "boolean":
      return leaf("false");
    case "string":
      return leaf('""');
    default:
      return leaf(typeOf(s) ? "" : "null");
  }
}

// fromText reads JSON into a draft, each part of which is as it was written.
function fromText(text: string): Draft {
  if (!isJson(text)) return leaf(text);
  const list = items(text);
  if (list) return { kind: "list", items: list.map(fromText) };
  const fields = members(text);
  if (fields) return { kind: "object", fields: Object.fromEntries(fields.map(([k, v]) => [k, fromText(v)])) };
  return leaf(text.trim());
}

// shown is the text of a value in a list of choices.
const shown = (text: string) => (text[0] === '"' ? (JSON.parse(text) as string) : text);

// toText returns the JSON of a draft.
export function toText(d: Draft): string {
  switch (d.kind) {
    case "leaf":
      return d.text.trim() || "null";
    case "list":
      return `[${d.items.map(toText).join(",")}]`;
    default:
      return `{${Object.entries(d.fields)
        .filter(([, v]) => v !== undefined)
        .map(([k, v]) => `${JSON.stringify(k)}:${toText(v!)}`)
        .join(",")}}`;
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// label is the title of a property, or its name as words.
export const label = (name: string, s: Schema) => s.title ?? name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());

interface FieldProps {
  name: string; schema: Schema; all: Schema; draft: Draft | undefined; required: boolean; pointer: string;
  errors: Record<string, string>; onChange(d: Draft | undefined): void;
}

// SchemaField is the field of a schema, or a group of fields.
export function SchemaField(p: FieldProps) {
  const s = resolve(p.schema, p.all);
  const type = typeOf(s);
  if (s.enum && s.enum.length <= 4) return <Choice {...p} schema={s} />;
  if (type === "object" && s.properties) return <Group {...p} schema={s} />;
  if (type === "array" && s.items) return <List {...p} schema={s} />;
  if (type === "boolean") return <Switch {...p} schema={s} />;
  return <Input {...p} schema={s} type={type} />;
}

function Hint({ s, id, error }: { s: Schema; id: string; error: string | undefined }) {
  return (
    <>
      {s.description && <span class="hint">{s.description}</span>}
      {error && <span class="fault" id={`${id}-fault`} role="alert">{error}</span>}
    </>
  );
}

function Input({ name, schema: s, draft, required, pointer, errors, onChange, type }: FieldProps & { type: string }) {
  const id = useId();
  const text = draft?.kind === "leaf" ? draft.text : draft ? toText(draft) : "";
  const error = errors[pointer];
  const isText = type === "string";
  const typed = isText && text ? String(safe(text) ?? "") : text;
  const set = (v: string) => {
    if (!v && !required) return onChange(undefined);
    onChange(leaf(isText ? JSON.stringify(v) : v));
  };
  const common = {
    id, "data-field": pointer, "aria-invalid": !!error, "aria-describedby": error ? `${id}-fault` : undefined,
    onInput: (e: Event) => set((e.currentTarget as HTMLInputElement).value), value: typed,
  };
  const long = isText && !s.format && !s.enum && (s.maxLength ?? 100) > 200;
  const unknown = !["string", "number", "integer"].includes(type);
  return (
    <div class="field">
      <label for={id}>{label(name, s)}{required ? "" : <span class="muted"> (optional)</span>}</label>
      {s.enum ? (
        <select {...common} class="input" value={s.enum.includes(text) ? text : ""}
          onChange={(e) => onChange(e.currentTarget.value ? leaf(e.currentTarget.value) : undefined)}>
          <option value="" disabled={required}>{required ? "Choose…" : "–"}</option>
          {s.enum.map((v) => <option key={v} value={v}>{shown(v)}</option>)}
        </select>
      ) : long || unknown ? (
        <textarea {...common} class={`input ${unknown ? "mono" : ""}`} rows={unknown ? 4 : 3}
          placeholder={unknown ? "JSON" : undefined} />
      ) : (
        <input {...common} class="input" type="text" placeholder={s.format === "date" ? "2026-11-30" : ""}
          inputMode={type === "integer" ? "numeric" : type === "number" ? "decimal" : "text"} />
      )}
      <Hint s={s} id={id} error={error} />
    </div>
  );
}

function safe(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function Switch({ name, schema: s, draft, pointer, errors, onChange }: FieldProps) {
  const id = useId();
  const on = draft?.kind === "leaf" && draft.text === "true";
  return (
    <div class="field">
      <label class="row check">
        <input type="checkbox" id={id} data-field={pointer} checked={on}
          onChange={(e) => onChange(leaf(String(e.currentTarget.checked)))} />
        {label(name, s)}
      </label>
      <Hint s={s} id={id} error={errors[pointer]} />
    </div>
  );
}

function Choice({ name, schema: s, draft, required, pointer, errors, onChange }: FieldProps) {
  const id = useId();
  const text = draft?.kind === "leaf" ? draft.text : "";
  return (
    <fieldset class="field" data-field={pointer}>
      <legend>{label(name, s)}{required ? "" : <span class="muted"> (optional)</span>}</legend>
      <div class="choice">
        {s.enum!.map((value) => (
          <label key={value} class={value === text ? "on" : ""}>
            <input type="radio" name={id} value={value} checked={value === text} onChange={() => onChange(leaf(value))} />
            {shown(value)}
          </label>
        ))}
        {!required && draft && <button type="button" class="btn quiet sm" onClick={() => onChange(undefined)}>Clear</button>}
      </div>
      <Hint s={s} id={id} error={errors[pointer]} />
    </fieldset>
  );
}

const escapePointer = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");

function Group({ name, schema: s, all, draft, pointer, errors, onChange, required }: FieldProps) {
  const fields = draft?.kind === "object" ? draft.fields : {};
  const body = Object.entries(s.properties!).map(([key, field]) => (
    <SchemaField key={key} name={key} schema={field} all={all} draft={fields[key]} errors={errors}
      required={!!s.required?.includes(key)} pointer={`${pointer}/${escapePointer(key)}`}
      onChange={(d) => onChange({ kind: "object", fields: { ...fields, [key]: d } })} />
  ));
  if (pointer === "") return <div class="gap">{errors[""] && <p class="fault">{errors[""]}</p>}{body}</div>;
  return (
    <fieldset class="group gap">
      <legend>{label(name, s)}{required ? "" : <span class="muted"> (optional)</span>}</legend>
      {draft || required ? body : (
        <button type="button" class="btn sm" onClick={() => onChange(draftOf(s, all))}>Add {label(name, s)}</button>
      )}
    </fieldset>
  );
}

function List({ name, schema: s, all, draft, pointer, errors, onChange }: FieldProps) {
  const items = draft?.kind === "list" ? draft.items : [];
  const set = (next: Draft[]) => onChange({ kind: "list", items: next });
  return (
    <fieldset class="group gap" data-field={pointer}>
      <legend>{label(name, s)}</legend>
      {items.map((item, i) => (
        <div key={i} class="row top">
          <div class="grow">
            <SchemaField name={`${label(name, s)} ${i + 1}`} schema={s.items!} all={all} draft={item} required
              pointer={`${pointer}/${i}`} errors={errors}
              onChange={(d) => set(items.map((old, k) => (k === i && d ? d : old)))} />
          </div>
          <button type="button" class="btn sm quiet" aria-label={`Remove ${label(name, s)} ${i + 1}`}
            onClick={() => set(items.filter((_, k) => k !== i))}>Remove</button>
        </div>
      ))}
      <div>
        <button type="button" class="btn sm" onClick={() => set([...items, draftOf(s.items!, all)])}>
          Add {label(name, s).toLowerCase()}
        </button>
      </div>
      {errors[pointer] && <p class="fault" role="alert">{errors[pointer]}</p>}
    </fieldset>
  );
}

interface EditorProps {
  schema: Schema | undefined; text: string; onChange(text: string): void; errors: Record<string, string>; name: string;
}

// SchemaEditor edits a value by a form or as JSON; both have the same value.
export function SchemaEditor(props: EditorProps) {
  const { choice, body } = useSchemaEditor(props);
  return <div class="gap editor">{choice && <span class="end">{choice}</span>}{body}</div>;
}

// useSchemaEditor returns the two parts of a SchemaEditor: the choice of form or JSON, if there is one, and the fields.
export function useSchemaEditor({ schema, text, onChange, errors, name }: EditorProps) {
  const simple = !!schema && (!!typeOf(resolve(schema, schema)) || !!schema.enum);
  const [asJson, setJson] = useState(!simple);
  const [draft, setDraft] = useState<Draft>(() =>
    schema && (!text || text === toText(draftOf(schema))) ? draftOf(schema) : fromText(text));
  const id = useId();
  const change = (d: Draft | undefined) => {
    const next = d ?? leaf("null");
    setDraft(next);
    onChange(toText(next));
  };
  const choice = simple && (
    <span class="seg" role="group" aria-label={`Form of the ${name}`}>
      <button type="button" aria-pressed={!asJson} class={asJson ? "" : "on"} disabled={asJson && !isJson(text)}
        onClick={() => (setDraft(fromText(text)), setJson(false))}>Form</button>
      <button type="button" aria-pressed={asJson} class={asJson ? "on" : ""} onClick={() => setJson(true)}>JSON</button>
    </span>
  );
  const body = asJson ? (
    <div class="field">
      <label for={id}>{name} as JSON</label>
      <textarea id={id} class="input mono" rows={10} spellcheck={false} value={text} data-field="json"
        aria-invalid={!!text && !isJson(text)} onInput={(e) => onChange(e.currentTarget.value)} />
      {text && !isJson(text) && <span class="fault">This is not JSON.</span>}
      {Object.entries(errors).map(([at, e]) => <span key={at} class="fault" role="alert">{at || "/"}: {e}</span>)}
    </div>
  ) : (
    <SchemaField name={name} schema={schema!} all={schema!} draft={draft} required pointer="" errors={errors}
      onChange={change} />
  );
  return { choice, body };
}

export { JsonText };

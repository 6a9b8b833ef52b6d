// A JSON value as fields: a row for each property of an object. Rows are made of the text of the value, so that numbers
// keep their digits.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Value } from "../api/types";
import { useSession } from "../app/session";
import { items, members } from "../lib/json";
import { plural } from "../lib/text";
import { Card, JsonText, Loading, Segmented, ValueView } from "./basic";
import type { Schema } from "../lib/schema";
import { label, resolve } from "./form";
import { Time } from "./time";

const deepest = 3; // levels of groups; what is below them is shown as JSON
const mostRows = 100; // rows of a group that are shown at first
const longestLine = 80; // characters of a list that is shown on one line
const longestText = 20_000; // characters of a text that are shown

interface FieldsProps {
  // text is the JSON of an object.
  text: string;
  // schema is that of the object; all is the schema that has the definitions which it refers to.
  schema: Schema | undefined; all: Schema | undefined;
  // path is the names of the groups around it.
  path?: readonly string[];
}

// Fields shows the properties of an object, in its order. Those that the schema has are named and described as in a form of
// the schema, others by their own names.
function Fields({ text, schema, all, path = [] }: FieldsProps) {
  const [whole, setWhole] = useState(false);
  const rows = members(text) ?? [];
  const known = (schema && all && resolve(schema, all).properties) ?? {};
  return (
    <>
      <dl class="kv fields">
        {(whole ? rows : rows.slice(0, mostRows)).map(([name, value], i) => {
          const field = all && Object.hasOwn(known, name) ? resolve(known[name]!, all) : undefined;
          return (
            <Fragment key={i}>
              <dt class={field ? "" : "mono"}>{field ? label(name, field) : name || '""'}</dt>
              <dd><Part text={value} schema={field} all={all} path={[...path, name]} />{field?.description && <span class="hint">{field.description}</span>}</dd>
            </Fragment>
          );
        })}
      </dl>
      {!whole && rows.length > mostRows && (
        <button type="button" class="btn sm" onClick={() => setWhole(true)}>Show {plural(rows.length - mostRows, "more field")}</button>
      )}
    </>
  );
}

// Part shows a property.
function Part({ text, schema, all, path }: Required<FieldsProps>) {
  if (text[0] === "[") return <List text={text} name={path.join(" / ")} />;
  if (text[0] === '"' && schema?.format === "date-time" && !isNaN(Date.parse(JSON.parse(text)))) return <Time at={JSON.parse(text)} />;
  if (text[0] !== "{") return <Plain text={text} />;
  if (members(text)!.length === 0) return <Plain text='""' />;
  if (path.length >= deepest) return <JsonText raw={text} label={path.join(" / ")} />;
  return <Fields text={text} schema={schema} all={all} path={path} />;
}

// plain returns the words for a value that is no object and no list. A number has the digits that it was written with.
function plain(text: string): string {
  if (text[0] === '"') return JSON.parse(text) as string;
  return { true: "yes", false: "no", null: "none" }[text] ?? text;
}

function Plain({ text }: { text: string }) {
  const shown = plain(text);
  if (shown.trim() === "") return <span class="muted">{shown ? "only spaces" : "empty"}</span>;
  return <span class={text === "null" ? "muted" : "lines"}>{shown.slice(0, longestText)}{shown.length > longestText && "…"}</span>;
}

// List shows a short list of plain values on one line, and folds other lists.
function List({ text, name }: { text: string; name: string }) {
  const [open, setOpen] = useState(false);
  const list = items(text)!;
  if (list.length === 0) return <Plain text='""' />;
  const line = list.map((one) => ("{[".includes(one[0]!) ? "\n" : plain(one)));
  const separate = line.every((one) => one.trim() !== "" && !/[,\n]/.test(one));
  if (separate && line.join(", ").length <= longestLine) return <>{line.join(", ")}</>;
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{plural(list.length, "item")}</summary>
      {open && <JsonText raw={text} label={name} />}
    </details>
  );
}

interface CardProps { title: string; note: string; value: Value | undefined; loading: boolean; schema: Schema | undefined }

// ValueCard shows a value: an object as fields or as JSON, which is chosen in the head of the card, any other value as
// ValueView does. The schema, if there is one, is that of the value.
export function ValueCard({ title, note, value, loading, schema }: CardProps) {
  const session = useSession();
  const [shape, setShape] = useState<"fields" | "json">("fields");
  const text = session.reads ? value?.json?.text : undefined;
  const isObject = !!text && !!members(text)?.length;
  const choice = (
    <Segmented<"fields" | "json"> label={`${title}, shown as`} value={shape} onChange={setShape} options={[["fields", "Fields"], ["json", "JSON"]]} />
  );
  return (
    <Card title={title} note={note} side={isObject && choice}>
      <div class="pad">
        {loading ? <Loading />
          : isObject && shape === "fields" ? <Fields text={text} schema={schema} all={schema} />
          : <ValueView value={value} label={title} />}
      </div>
    </Card>
  );
}

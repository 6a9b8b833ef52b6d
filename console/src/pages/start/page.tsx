import { useState } from "preact/hooks";
import { ApiError, get, post } from "../../api/client";
import type { FlowDetail, RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { usePrefs } from "../../app/prefs";
import { go, href, Link, runPath, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { tagsOf } from "../run/values";
import { schemaOf } from "../../lib/schema";
import { fromField, zoneName } from "../../lib/time";
import { draftOf, isJson, SchemaEditor, toText } from "../../ui/form";

// StartPage starts a run of a flow by the schema of its input.
export function StartPage({ flow }: { flow: string }) {
  const like = useQuery().get("like") ?? "";
  const session = useSession();
  const loaded = useLoad<{ flow: FlowDetail; like: Like | undefined }>(async (s) => {
    const run = like ? await get(runPath(flow, like), { values: session.reads, nodes: 1, value_bytes: 1 << 20 }, s) : undefined;
    return { flow: await get(["flows", flow], {}, s), like: run && { run, tags: await tagsOf(run, s) } };
  }, [flow, like]);
  return (
    <>
      <Top crumbs={<><Link to={href(["flows"])}>Flows</Link> / <Link class="mono" to={href(["flows", flow])}>{flow}</Link> / <h1>Start</h1></>} />
      <div class="page scroll">
        {loaded.error && <Fault error={loaded.error} retry={loaded.reload} />}
        {!loaded.data && !loaded.error && <Loading />}
        {loaded.data && (session.may("operate")
          ? <StartForm flow={loaded.data.flow} like={loaded.data.like} />
          : <Empty title="Your role does not include starting runs." />)}
      </div>
    </>
  );
}

// Like is the run whose values fill the form.
interface Like { run: RunDetail; tags: Record<string, string> | undefined }

function StartForm({ flow, like }: { flow: FlowDetail; like: Like | undefined }) {
  const session = useSession();
  const { zone } = usePrefs();
  const schema = schemaOf(flow.input_schema);
  const [text, setText] = useState(() => like?.run.input?.json?.text ?? (schema ? toText(draftOf(schema)) : ""));
  const [id, setId] = useState("");
  const [tags, setTags] = useState<Tag[]>(() => Object.entries(like?.tags ?? {}));
  const [priority, setPriority] = useState("");
  const [startAt, setStartAt] = useState("");
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [fault, setFault] = useState<ApiError | Error>();
  const [busy, setBusy] = useState(false);
  const start = async (e: Event) => {
    e.preventDefault();
    if (text && !isJson(text)) return setFault(new Error("The input is not complete yet: a field is empty or not of its type."));
    setBusy(true);
    setErrors({});
    setFault(undefined);
    const parts = [`"input":${text || "null"}`];
    const add = (name: string, value: unknown) => parts.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
    if (id.trim()) add("id", id.trim());
    const named = tags.filter(([name]) => name);
    if (named.length) add("tags", Object.fromEntries(named));
    if (priority.trim()) add("priority", Number(priority));
    if (startAt) add("start_at", fromField(startAt, zone).toISOString());
    try {
      const run = await post(["flows", flow.name, "runs"], `{${parts.join(",")}}`);
      session.say(run.existed ? "The run was there already" : "Run started", false, { to: href(runPath(run.flow, run.run)), text: run.run });
      go(href(runPath(run.flow, run.run)));
    } catch (e) {
      const found: Record<string, string> = {};
      if (e instanceof ApiError) {
        for (const one of e.problem.errors ?? []) found[(one.pointer ?? "").replace(/^\/input/, "")] = one.message;
      }
      setErrors(found);
      setFault(e as Error);
      setBusy(false);
    }
  };
  return (
    <form class="startgrid" onSubmit={start}>
      <Card title="Input" note={like ? `as of ${like.run.run}` : flow.input_type}>
        <div class="pad"><SchemaEditor schema={schema} text={text} onChange={setText} errors={errors} name="Input" /></div>
      </Card>
      <div class="stack">
        <Card title={<span class="mono">{flow.name}</span>}><div class="pad soft">{flow.doc ?? "No description."}</div></Card>
        <Card title="Options">
          <div class="pad gap">
            <label class="field"><span>Run id <span class="muted">(made up if empty)</span></span>
              <input class="input mono" name="id" value={id} onInput={(e) => setId(e.currentTarget.value)} /></label>
            <TagFields tags={tags} onChange={setTags} />
            <label class="field"><span>Priority</span>
              <input class="input" name="priority" inputMode="numeric" value={priority} onInput={(e) => setPriority(e.currentTarget.value)} /></label>
            <label class="field"><span>Start at <span class="muted">({zoneName(zone)}; at once if empty)</span></span>
              <input class="input" name="start_at" type="datetime-local" value={startAt} onInput={(e) => setStartAt(e.currentTarget.value)} /></label>
          </div>
        </Card>
        {fault && (
          <div class="fault" role="alert">
            <p>{fault.message}</p>
            {fault instanceof ApiError && fault.status === 409 && id && <Link class="link" to={href(runPath(flow.name, id))}>Open {id}</Link>}
          </div>
        )}
        <div class="row actions"><span class="grow s muted">Recorded as {session.server.principal.name}</span><button class="btn primary big" disabled={busy}>Start the run</button></div>
      </div>
    </form>
  );
}

type Tag = [name: string, value: string];

// TagFields has two fields for each tag, so a value may have any character.
function TagFields({ tags, onChange }: { tags: Tag[]; onChange(tags: Tag[]): void }) {
  const set = (i: number, tag: Tag) => onChange(tags.map((old, k) => (k === i ? tag : old)));
  return (
    <fieldset class="field">
      <legend>Tags</legend>
      {tags.map(([name, value], i) => (
        <div key={i} class="row" data-tag={i}>
          <input class="input mono" name="tag_name" aria-label={`Name of tag ${i + 1}`} placeholder="app.tenant" value={name}
            onInput={(e) => set(i, [e.currentTarget.value.trim(), value])} />
          <input class="input mono" name="tag_value" aria-label={`Value of tag ${i + 1}`} placeholder="atlas" value={value}
            onInput={(e) => set(i, [name, e.currentTarget.value])} />
          <button type="button" class="btn sm quiet" aria-label={`Remove tag ${i + 1}`} onClick={() => onChange(tags.filter((_, k) => k !== i))}>Remove</button>
        </div>
      ))}
      <div><button type="button" class="btn sm" onClick={() => onChange([...tags, ["", ""]])}>Add a tag</button></div>
    </fieldset>
  );
}

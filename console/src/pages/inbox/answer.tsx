import { useState } from "preact/hooks";
import { ApiError, get, post } from "../../api/client";
import type { Page, RunDetail, SignalChoice, Wait } from "../../api/types";
import { runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { members } from "../../lib/json";
import { schemaOf, type Schema } from "../../lib/schema";
import { exact } from "../../lib/text";
import { draftOf, isJson, label, resolve, toText, useSchemaEditor } from "../../ui/form";
import { Card } from "../../ui/basic";
import { Icon } from "../../ui/icon";

const named = "flowfabric.answer-as";

// asks reports whether a wait is a question to people.
export const asks = (w: Wait) => !!(w.title || w.question || w.audience?.length);

interface Props { wait: Wait; card?: boolean; onDone(said: string): void; onSkip?(): void }

// AnswerForm answers a wait: each answer that it takes is a button, and nothing is chosen before.
export function AnswerForm({ wait, card, onDone, onSkip }: Props) {
  const session = useSession();
  const choices = wait.choices ?? [];
  const schema = withoutDecision(schemaOf(wait.answer_schema), choices);
  const [name, setName] = useState("answer");
  const [text, setText] = useState(() => schema ? toText(draftOf(schema)) : "null");
  const [who, setWho] = useState(() => localStorage.getItem(named) ?? "");
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const editor = useSchemaEditor({ name: "Answer", schema, text, onChange: setText, errors });
  const anonymous = session.server.principal.login === "none";
  const send = async (choice: SignalChoice) => {
    if (text && !isJson(text)) return setFault("The answer is not complete yet: a field is empty or not of its type.");
    setBusy(true);
    setErrors({});
    setFault(undefined);
    if (anonymous) localStorage.setItem(named, who.trim());
    try {
      const d = await post([...runPath(wait.flow, wait.run), "signals"], bodyOf(wait, choice, text, anonymous ? who.trim() : ""));
      if (d.outcome === "closed" || d.outcome === "expired") setFault("Somebody was faster: nothing more is needed.");
      else if (d.outcome === "duplicate") onDone("You had answered already.");
      else onDone(`${choices.length ? did(choice) : "Answered."} ${await effectOf(wait, choice)}`);
    } catch (e) {
      const problem = e instanceof ApiError ? e.problem : undefined;
      const found: Record<string, string> = {};
      for (const one of problem?.errors ?? []) found[(one.pointer ?? "").replace(/^\/payload/, "")] = one.message;
      setErrors(found);
      setFault((e as Error).message.replace(/^.*the signal does not count: /s, "Your answer does not count: "));
    }
    setBusy(false);
  };
  const only = choices.length === 1 ? choices[0] : choices.length ? undefined : { signal: name };
  const submit = (e: Event) => {
    e.preventDefault();
    if (only) void send(only);
    else setFault("Choose an answer by its button.");
  };
  const keys = (e: KeyboardEvent) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) submit(e);
  };
  const side = !empty(schema) && editor.choice;
  const form = (
    <form class={card ? "pad gap" : "gap"} onSubmit={submit} onKeyDown={keys}>
      {!card && side && <span class="end">{side}</span>}
      {!choices.length && !asks(wait) && (
        <label class="field"><span>Name of the signal</span><input class="input mono" name="signal" value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
      )}
      {!empty(schema) && editor.body}
      {anonymous && (
        <label class="field"><span>Answer as <span class="muted">(nobody has to log in here)</span></span>
          <input class="input" name="answer-as" value={who} placeholder="your name" maxLength={60} onInput={(e) => setWho(e.currentTarget.value)} /></label>
      )}
      {fault && <p class="fault" role="alert">{fault}</p>}
      <div class="row wrap actions">
        {choices.map((c, i) => (
          <button key={i} type="button" class={`btn big ${kindOf(c, choices)}`} data-choice={c.signal} disabled={busy} onClick={() => void send(c)}>
            {c.meaning && <Icon name={c.meaning === "yes" ? "check" : "x"} />} {titleOf(c, choices)}
          </button>
        ))}
        {!choices.length && <button class="btn primary big" disabled={busy}><Icon name="check" /> Send answer</button>}
        {onSkip && <button type="button" class="btn quiet" onClick={onSkip}>Skip for now <kbd class="kbd desk">J</kbd></button>}
        <span class="grow" />
        <span class="s muted">Sent as {anonymous && who.trim() ? who.trim() : session.server.principal.name || "this console"}</span>
      </div>
    </form>
  );
  return card ? <Card title="Your answer" side={side}>{form}</Card> : form;
}

// withoutDecision returns a schema without the fields that the buttons set.
function withoutDecision(schema: Schema | undefined, choices: readonly SignalChoice[]): Schema | undefined {
  const set = new Set(choices.flatMap((c) => Object.keys(c.sets ?? {})));
  if (!schema || set.size === 0) return schema;
  const root = resolve(schema, schema);
  return {
    ...root, ...(schema.$defs && { $defs: schema.$defs }),
    properties: Object.fromEntries(Object.entries(root.properties ?? {}).filter(([name]) => !set.has(name))),
    ...(root.required && { required: root.required.filter((name) => !set.has(name)) }),
  };
}

// empty reports whether the answer has no fields of its own.
const empty = (s: Schema | undefined) => !!s?.properties && Object.keys(s.properties).length === 0;

const shared = (c: SignalChoice, all: readonly SignalChoice[]) => all.filter((one) => one.signal === c.signal).length > 1;

// titleOf is the text of a button. Two answers by one signal differ in their meaning.
const titleOf = (c: SignalChoice, all: readonly SignalChoice[]) =>
  shared(c, all) ? (c.meaning === "yes" ? "Approve" : "Reject") : label(c.signal.replaceAll("-", " "), {});

const kindOf = (c: SignalChoice, all: readonly SignalChoice[]) =>
  c.meaning === "no" ? "destroy" : c.meaning === "yes" || all.length === 1 ? "primary" : "";

// did says what was sent.
function did(c: SignalChoice): string {
  const past: Record<string, string> = {
    approve: "approved", accept: "accepted", agree: "agreed", allow: "allowed it", confirm: "confirmed",
    reject: "rejected", deny: "denied", decline: "declined", refuse: "refused", veto: "vetoed", cancel: "cancelled", abort: "aborted",
  };
  const word = past[c.signal] ?? (c.meaning === "yes" ? "agreed" : c.meaning === "no" ? "refused" : "");
  return word ? `You ${word}.` : `You answered ${c.signal}.`;
}

// bodyOf is a signal as JSON. The payload keeps each part as it was written.
function bodyOf(wait: Wait, choice: SignalChoice, text: string, source: string): string {
  const fields = members(text);
  const sets = Object.entries(choice.sets ?? {}).map(([name, value]) => [name, JSON.stringify(value)] as const);
  const payload = sets.length && (fields || text === "null" || !text)
    ? `{${[...(fields ?? []).filter(([name]) => !(name in choice.sets!)), ...sets].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`
    : text || "null";
  const parts = [`"node":${JSON.stringify(wait.node)}`, `"wait":${JSON.stringify(wait.id)}`, `"name":${JSON.stringify(choice.signal)}`, `"payload":${payload}`];
  if (wait.step) parts.push(`"step":${JSON.stringify(wait.step)}`);
  if (source) parts.push(`"source":${JSON.stringify(source)}`);
  return `{${parts.join(",")}}`;
}

// effectOf says what an answer has led to.
async function effectOf(wait: Wait, choice: SignalChoice): Promise<string> {
  const path = runPath(wait.flow, wait.run);
  try {
    const waits: Page<Wait> = await get([...path, "waits"], {});
    const open = waits.items.find((w) => w.id === wait.id);
    if (open && open.state !== "closed") return needs(open, choice);
    const run: RunDetail = await get(path, { values: false });
    const node = run.nodes.find((n) => n.node === wait.node);
    if (run.state === "failed") return "The run failed.";
    return node?.state === "failed" ? `${wait.node} failed, and the run continues.` : "The run continues.";
  } catch {
    return "The answer was taken."; // it was: only the reads after it have failed
  }
}

function needs(wait: Wait, choice: SignalChoice): string {
  const left = Math.max(1, wait.needed - wait.received);
  const noun = choice.meaning === "yes" && choice.signal.startsWith("approv") ? "approval" : "answer";
  return left === 1 ? `One more ${noun} is needed.` : `${exact(left)} more ${noun}s are needed.`;
}

import { useState } from "preact/hooks";
import { ApiError, post } from "../../api/client";
import type { Node as RunNode, RunDetail, Wait } from "../../api/types";
import { runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { Confirm, Dialog } from "../../ui/dialog";
import { schemaOf } from "../../lib/schema";
import { draftOf, isJson, SchemaEditor, toText } from "../../ui/form";
import { ended } from "../../ui/state";
import { AnswerForm } from "../inbox/answer";
import type { RunData } from "./data";

interface Props { run: RunDetail; data: RunData; node?: string; onClose(): void }

// listed is how many nodes can be chosen.
const listed = 1000;

// SignalDialog sends a signal to a wait of the run by the name of its node, also before the wait has begun.
export function SignalDialog({ run, data, node: first, onClose }: Props) {
  const session = useSession();
  const names = receivers(data);
  const [node, setNode] = useState(first ?? names[0] ?? "");
  const waits = data.nodes.get(node)?.waits ?? [];
  const [step, setStep] = useState(waits[0]?.step ?? "");
  const wait = waits.find((w) => (w.step ?? "") === step);
  const [name, setName] = useState("");
  const [text, setText] = useState(() => draft(wait));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const choose = (to: string) => {
    const next = data.nodes.get(to)?.waits?.[0];
    setNode(to);
    setStep(next?.step ?? "");
    setName("");
    setText(draft(next));
    setErrors({});
  };
  const send = async () => {
    if (!node) throw new Error("No node of this run can take a signal.");
    if (!name.trim()) throw new Error("The signal needs a name.");
    if (text && !isJson(text)) throw new Error("The payload is not JSON, or a field of it is empty or not of its type.");
    const parts = [`"node":${JSON.stringify(node)}`, `"name":${JSON.stringify(name.trim())}`];
    if (step.trim()) parts.push(`"step":${JSON.stringify(step.trim())}`);
    if (wait) parts.push(`"wait":${JSON.stringify(wait.id)}`);
    if (text) parts.push(`"payload":${text}`);
    setErrors({});
    try {
      const d = await post([...runPath(run.flow, run.run), "signals"], `{${parts.join(",")}}`);
      if (d.outcome === "closed") throw new Error(`${node} waits no more: the signal was not taken.`);
      if (d.outcome === "expired") throw new Error(`The time of ${node} is over: the signal was not taken.`);
      return d.outcome === "resumed" ? `Signal sent. ${node} goes on.`
        : d.outcome === "duplicate" ? "The same signal had come before."
        : wait ? `Signal sent. ${node} waits for more.` : `Signal sent. It is kept until ${node} waits.`;
    } catch (e) {
      if (e instanceof ApiError) {
        setErrors(Object.fromEntries((e.problem.errors ?? []).map((one) => [(one.pointer ?? "").replace(/^\/payload/, ""), one.message])));
      }
      throw e;
    }
  };
  const place = (
    <div class="row">
      <label class="field grow"><span>Node</span>
        <select class="input mono" name="signal-node" value={node} onChange={(e) => choose(e.currentTarget.value)}>
          {!names.includes(node) && <option value={node}>{node || "none"}</option>}
          {names.map((n) => <option key={n} value={n}>{n}</option>)}
        </select></label>
      <label class="field grow"><span>Step <span class="muted">(empty for a waitpoint node)</span></span>
        <input class="input mono" name="signal-step" value={step} onInput={(e) => setStep(e.currentTarget.value)} /></label>
    </div>
  );
  if (wait?.choices?.length) {
    return (
      <Dialog title="Answer" wide onClose={onClose}>
        <div class="gap">
          <div class="soft">{wait.title || wait.question || `${node} waits${step ? ` at ${step}` : ""}`}: {wait.received} of {wait.needed} {wait.needed === 1 ? "has" : "have"} come.</div>
          {place}
          <AnswerForm key={wait.id} wait={wait} onDone={(said) => (session.say(said), onClose())} />
        </div>
      </Dialog>
    );
  }
  return (
    <Confirm wide onClose={onClose} act={{
      title: "Send a signal", verb: "Send signal", done: "Signal sent", run: send,
      what: wait ? `${node} waits${step ? ` at ${step}` : ""}: ${wait.received} of ${wait.needed} have come.`
        : `${node || "No node"} does not wait at present. A signal that comes before its wait is kept for it.`,
    }}>
      {place}
      <label class="field"><span>Name of the signal</span>
        <input class="input mono" name="signal-name" value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </label>
      <SchemaEditor key={`${node}/${wait?.id ?? ""}`} name="Payload" schema={schemaOf(wait?.answer_schema)} text={text} onChange={setText} errors={errors} />
    </Confirm>
  );
}

const kinds = new Set(["waitpoint", "activity"]);
const over = new Set(["completed", "succeeded", "failed", "cancelled", "expired", "skipped"]);

// receivers are the nodes that can get a signal, those that wait at present first.
function receivers(data: RunData): string[] {
  const all: { node: string; kind: string }[] = data.layout.data?.nodes.length ? data.layout.data.nodes : data.run.data!.nodes;
  const open = all.filter((n, i) => kinds.has(n.kind) && !over.has(data.nodes.get(n.node)?.state ?? data.stateAt(i).key)).map((n) => n.node);
  const waits = (n: string) => !!data.nodes.get(n)?.waits?.length;
  return [...open.filter(waits), ...open.filter((n) => !waits(n))].slice(0, listed);
}

const draft = (w: Wait | undefined): string => {
  const schema = schemaOf(w?.answer_schema);
  return schema ? toText(draftOf(schema)) : "";
};

// takesSignals reports whether a node of an open run can get a signal.
export const takesSignals = (run: RunDetail, n: RunNode) => !ended(run.state) && kinds.has(n.kind) && !over.has(n.state);

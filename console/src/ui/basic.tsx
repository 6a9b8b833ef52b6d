import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import type { Value } from "../api/types";
import { pretty, tokens } from "../lib/json";
import type { Raw } from "../lib/raw";
import { size } from "../lib/text";
import { useSession } from "../app/session";
import { Icon } from "./icon";

// Empty says what would be here, and how it gets here.
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="strong">{title}</p>
      {children}
    </div>
  );
}

// Fault stands where the data would be: what failed and what to do.
export function Fault({ error, retry }: { error: Error; retry?: () => void }) {
  const problem = error instanceof ApiError ? error.problem : undefined;
  return (
    <div class="empty" role="alert">
      <p class="strong">{error.message}</p>
      {problem?.instance && <p class="s muted">Request <code>{problem.instance}</code>; the server's log has it.</p>}
      {retry && <button type="button" class="btn" onClick={retry}>Try again</button>}
    </div>
  );
}

// Loading shows nothing at first, then that it goes on.
export function Loading() {
  const [step, set] = useState(0);
  useEffect(() => {
    const timers = [window.setTimeout(set, 150, 1), window.setTimeout(set, 5000, 2)];
    return () => timers.forEach(clearTimeout);
  }, []);
  if (step === 0) return <div class="loading" />;
  return (
    <div class="loading" role="status">
      <span class="sr">{step === 1 ? "Loading" : ""}</span>
      <i /><i /><i />
      {step === 2 && <p class="muted">Still loading. The engine answers slowly.</p>}
    </div>
  );
}

interface CardProps {
  title: ComponentChildren; note?: ComponentChildren; side?: ComponentChildren; children: ComponentChildren;
  class?: string;
}

export function Card({ title, note, side, children, class: more }: CardProps) {
  return (
    <section class={`card ${more ?? ""}`}>
      <header>
        <h2>{title}</h2>
        {note && <span class="s muted ell">{note}</span>}
        <span class="grow" />
        {side}
      </header>
      {children}
    </section>
  );
}

interface SegProps<T extends string> {
  label: string; value: T; options: readonly (readonly [T, string])[]; onChange(v: T): void;
}

// Segmented chooses one of a few.
export function Segmented<T extends string>({ label, value, options, onChange }: SegProps<T>) {
  return (
    <span class="seg" role="group" aria-label={label}>
      {options.map(([key, text]) => (
        <button key={key} type="button" class={key === value ? "on" : ""} aria-pressed={key === value}
          onClick={() => onChange(key)}>{text}</button>
      ))}
    </span>
  );
}

// Meter shows a share as a bar; the text beside it says the same.
export function Meter({ part, whole, hue = "accent", label }: {
  part: number; whole: number; hue?: string; label: string;
}) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  return (
    <span class="meter" role="img" aria-label={label}>
      <i class={`g-${hue}`} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const session = useSession();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      session.say("Copied");
    } catch {
      session.say("The browser does not let this page copy.", true);
    }
  };
  return (
    <button type="button" class="btn quiet sm" onClick={copy}>{label}</button>
  );
}

// JsonText shows JSON as it was written, with its own digits and order.
export function JsonText({ raw, label }: { raw: Raw | string; label: string }) {
  const text = pretty(typeof raw === "string" ? raw : raw.text);
  const long = text.length > 200_000;
  const shown = long ? text.slice(0, 200_000) : text;
  return (
    <pre class="json" tabIndex={0} role="region" aria-label={label}>
      {shown.split("\n").map((line, i) => (
        <span key={i} class="line">
          {line.match(/^ */)![0]}
          {[...tokens(line)].map((t, k, all) => (
            <span key={k} class={t.kind === "string" && all[k + 1]?.text === ":" ? "t-key" : `t-${t.kind}`}>
              {t.text}{t.text === ":" ? " " : ""}
            </span>
          ))}
          {"\n"}
        </span>
      ))}
      {long && "…"}
    </pre>
  );
}

// ValueView shows an input or a result, or why it does not.
export function ValueView({ value, label }: { value: Value | undefined; label: string }) {
  const session = useSession();
  if (!session.reads) return <Hidden />;
  if (!value) return <p class="muted s">None</p>;
  if (value.json) return <JsonText raw={value.json} label={label} />;
  const body = value.text ?? value.data ?? "";
  return (
    <>
      <pre class="json" tabIndex={0} role="region" aria-label={label}>{body}{value.truncated ? "…" : ""}</pre>
      <p class="s muted">
        {value.truncated ? `The beginning of ${size(value.size)}` : size(value.size)}
        {value.text === undefined ? `, codec ${value.codec}, in base64` : ""}
      </p>
    </>
  );
}

export const Hidden = () => <p class="muted s">Hidden. Your role does not include payloads.</p>;

export function Tags({ tags, short }: { tags: Record<string, string> | undefined; short?: boolean }) {
  return (
    <>
      {Object.entries(tags ?? {}).map(([k, v]) => <span key={k} class="tag" title={`${k}:${v}`}>{short ? v : `${k}:${v}`}</span>)}
    </>
  );
}

export function NewPill({ n, onClick }: { n: number; onClick(): void }) {
  if (n === 0) return null;
  return (
    <button type="button" class="newpill" onClick={onClick}>
      <Icon name="up" size={14} /> {n} new
    </button>
  );
}

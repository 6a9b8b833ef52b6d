import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useSession } from "../app/session";
import { Icon } from "./icon";

interface DialogProps { title: string; onClose(): void; children: ComponentChildren; wide?: boolean }

// Dialog is open while it is rendered. The focus returns to where it was.
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={ref} class={wide ? "wide" : ""} aria-labelledby="dialog-title" onClose={onClose}
      onClick={(e) => e.target === ref.current && ref.current?.close()}>
      <div class="dialog">
        <header class="row">
          <h2 id="dialog-title" class="grow">{title}</h2>
          <button type="button" class="btn quiet icon" aria-label="Close" onClick={() => ref.current?.close()}>
            <Icon name="x" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface Act {
  title: string; // as a question's headline: "Cancel run"
  verb: string; // on the button
  keep?: string; // the other button; "Keep running"
  what: ComponentChildren; // what will happen, in numbers
  danger?: boolean;
  reason?: boolean; // asks for an optional reason
  confirm?: string; // must be typed
  done: string; // said afterwards, unless run returns another text
  link?: { to: string; text: string }; // to what was made, beside that; or as run returns it
  run(reason: string): Promise<unknown>;
}

// Made is what an action has made: its link is beside what is said afterwards.
export class Made {
  constructor(readonly link: { to: string; text: string }) {}
}

interface ConfirmProps { act: Act; onClose(): void; children?: ComponentChildren; wide?: boolean }

// Confirm says what will happen, how many and under whose name, and does it.
export function Confirm({ act, onClose, children, wide }: ConfirmProps) {
  const session = useSession();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const said = await act.run(reason);
      const made = said instanceof Made ? said.link : act.link;
      session.say(typeof said === "string" ? said : act.done, false, made);
      onClose();
    } catch (e) {
      setError(e as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={act.title} onClose={onClose} wide={!!wide}>
      <form onSubmit={submit} class="gap">
        <div class="soft">{act.what}</div>
        {children}
        {act.reason && (
          <label class="field">
            <span>Reason <span class="muted">(optional, kept in the audit log)</span></span>
            <input name="reason" class="input" value={reason} maxLength={256}
              onInput={(e) => setReason(e.currentTarget.value)} />
          </label>
        )}
        {act.confirm && (
          <label class="field">
            <span>Type <code>{act.confirm}</code> to confirm</span>
            <input name="confirm" class="input mono" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
          </label>
        )}
        {error && <p class="fault" role="alert">{error.message}</p>}
        <footer class="row">
          <span class="s muted grow">Recorded as {session.server.principal.name || "this console"}</span>
          <button type="button" class="btn" onClick={onClose}>{act.keep ?? "Back"}</button>
          <button class={`btn ${act.danger ? "destroy" : "primary"}`}
            disabled={busy || (!!act.confirm && typed !== act.confirm)}>{act.verb}</button>
        </footer>
      </form>
    </Dialog>
  );
}

export interface MenuItem { label: string; danger?: boolean; run(): void }

// Menu is a button with a list of actions below it, in groups.
export function Menu({ label, groups, id }: { label: string; groups: MenuItem[][]; id?: string }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (e: Event) => box.current?.contains(e.target as Node) || setOpen(false);
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const move = (e: KeyboardEvent) => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (e.key === "Escape") {
      setOpen(false);
      box.current?.querySelector("button")?.focus();
    } else if (e.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
    else if (e.key === "ArrowUp") items[(at + items.length - 1) % items.length]?.focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const shown = groups.filter((g) => g.length > 0);
  if (shown.length === 0) return null;
  return (
    <div class="menu" ref={box} onKeyDown={open ? move : undefined}>
      <button type="button" id={id} class="btn" aria-haspopup="menu" aria-expanded={open}
        onClick={() => setOpen(!open)}>
        {label} <Icon name="down" />
      </button>
      {open && (
        <div class="popup" role="menu">
          {shown.map((group, i) => (
            <div key={i} role="group">
              {group.map((item) => (
                <button key={item.label} type="button" role="menuitem" class={item.danger ? "danger" : ""}
                  onClick={() => (setOpen(false), item.run())}>{item.label}</button>
              ))}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

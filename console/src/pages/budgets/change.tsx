import { useState } from "preact/hooks";
import { ApiError, getTagged, post, put, remove } from "../../api/client";
import type { Budget } from "../../api/types";
import { exact } from "../../lib/text";
import { goDuration, short } from "../../lib/time";
import { Confirm, type Act } from "../../ui/dialog";

export const parameters = (b: Budget) => ({ key: b.key, flow: b.flow, run: b.run });

export const resetAct = (b: Budget, reload: () => void): Act => ({
  title: `Reset ${b.name}`, verb: "Reset budget", done: "Budget reset",
  what: "What is spent counts from nothing again. Nodes that wait for it start.", run: () => post(["budgets", b.name, "reset"], {}, parameters(b)).then(reload),
});

export const deleteAct = (b: Budget, reload: () => void): Act => ({
  title: `Delete ${b.name}`, verb: "Delete budget", keep: "Keep it", danger: true, done: "Budget deleted",
  what: "Its limits and what was spent are removed. A flow that declares it makes it anew.", run: () => remove(["budgets", b.name], parameters(b)).then(reload),
});

export const effects: Record<string, string> = { fail: "the node fails", block: "nodes wait", cancel: "the run is cancelled" };

// Change sets a budget against the version that was read. If it has changed meanwhile, both values are shown.
export function Change({ budget: b, etag, onClose }: { budget: Budget; etag: string; onClose(): void }) {
  const [hard, setHard] = useState<Record<string, string>>(Object.fromEntries(b.amounts.map((a) => [a.dimension, String(a.hard ?? "")])));
  const [soft, setSoft] = useState<Record<string, string>>(Object.fromEntries(b.amounts.map((a) => [a.dimension, String(a.soft ?? "")])));
  const [every, setEvery] = useState(short(b.reset_every));
  const [effect, setEffect] = useState(b.effect ?? "fail");
  const [tag, setTag] = useState(etag);
  const [other, setOther] = useState<Budget>();
  const numbers = (all: Record<string, string>) => Object.fromEntries(Object.entries(all).filter(([, v]) => v.trim()).map(([k, v]) => {
    if (!/^\d+$/.test(v.trim())) throw new Error(`The limit of ${k} must be a whole number, not ${v}.`);
    return [k, Number(v)];
  }));
  return (
    <Confirm onClose={onClose} act={{
      title: `Change ${b.name}`, verb: "Set budget", done: "Budget changed",
      what: <p>A higher limit lets nodes that wait for it start at once. A lower one stops nothing that runs.{other && <b class="c-bad"> Somebody has set it to {other.amounts.map((a) => `${exact(a.hard ?? 0)} ${a.dimension}`).join(", ")} meanwhile. Set again to replace that.</b>}</p>,
      run: async () => {
        try {
          const reset = every.trim();
          if (reset && !goDuration(reset)) throw new Error(`The interval must be a duration such as 1h or 24h, not ${reset}.`);
          const body = { hard: numbers(hard), soft: numbers(soft), effect, ...(reset && { reset_every: reset }) };
          await put(["budgets", b.name], body, parameters(b), tag);
        } catch (e) {
          if (e instanceof ApiError && e.status === 412) {
            const now = await getTagged(["budgets", b.name], parameters(b));
            setOther(now.data);
            setTag(now.etag);
            throw new Error("The budget was changed while you edited. Compare and set it again.");
          }
          throw e;
        }
      },
    }}>
      {b.amounts.map((a) => (
        <div key={a.dimension} class="row">
          <label class="field grow"><span>{a.dimension}: hard limit</span><input class="input" name={`hard-${a.dimension}`} inputMode="numeric" value={hard[a.dimension]} onInput={(e) => setHard({ ...hard, [a.dimension]: e.currentTarget.value })} /></label>
          <label class="field grow"><span>soft limit</span><input class="input" inputMode="numeric" value={soft[a.dimension]} onInput={(e) => setSoft({ ...soft, [a.dimension]: e.currentTarget.value })} /></label>
        </div>
      ))}
      <div class="row">
        <label class="field grow"><span>Resets every <span class="muted">(empty for never)</span></span><input class="input mono" name="reset_every" placeholder="24h" value={every} onInput={(e) => setEvery(e.currentTarget.value)} /></label>
        <label class="field grow"><span>When used up</span>
          <select class="input" name="effect" value={effect} onChange={(e) => setEffect(e.currentTarget.value)}>
            {Object.entries(effects).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
          </select></label>
      </div>
    </Confirm>
  );
}

import { useEffect, useState } from "preact/hooks";
import { get, patch } from "../../api/client";
import type { FlowDetail, Page, Schedule, Value } from "../../api/types";
import { useLoad } from "../../app/load";
import { useSession } from "../../app/session";
import { short, span } from "../../lib/time";
import { Hidden, ValueView } from "../../ui/basic";
import { Confirm } from "../../ui/dialog";
import { schemaOf } from "../../lib/schema";
import { isJson, SchemaEditor } from "../../ui/form";
import { Ago, Time } from "../../ui/time";

const overlaps: [string, string][] = [
  ["skip", "skip: the fire is left out"], ["queue", "queue: it starts when the last run has ended"],
  ["cancel_previous", "cancel previous: the last run is cancelled"], ["allow", "allow: both run"],
];

interface Props { schedule: Schedule; input: Value | undefined; onClose(): void }

// Edit changes a schedule, with a preview of its next ten times. The input stays as it is unless it is changed.
export function Edit({ schedule: s, input: present, onClose }: Props) {
  const session = useSession();
  const flow = useLoad<FlowDetail | null>((signal) => get(["flows", s.flow], {}, signal).catch(() => null), [s.flow]);
  const [kind, setKind] = useState<"cron" | "every">(s.cron ? "cron" : "every");
  const [cron, setCron] = useState(s.cron ?? "");
  const [zone, setZone] = useState(s.time_zone ?? "");
  const [every, setEvery] = useState(short(s.every));
  const [jitter, setJitter] = useState(short(s.jitter));
  const [catchUp, setCatchUp] = useState(short(s.catch_up));
  const [overlap, setOverlap] = useState(s.overlap || "skip");
  const [queueLimit, setQueueLimit] = useState(s.queue_limit ? String(s.queue_limit) : "");
  const was = present?.json?.text;
  const [input, setInput] = useState<string>(); // undefined as long as it stays
  const timing = {
    ...(kind === "cron" ? { cron: cron.trim(), ...(zone.trim() && { time_zone: zone.trim() }) } : { every: every.trim() }),
    ...(s.starting_at && { starting_at: s.starting_at }), ...(s.ending_at && { ending_at: s.ending_at }),
  };
  const schema = schemaOf(flow.data?.input_schema);
  const save = () => {
    const changed = input !== undefined && input !== was;
    if (changed && !isJson(input)) throw new Error("The input is not complete yet: a field is empty or not of its type.");
    const parts = [`"timing":${JSON.stringify({ ...timing, ...(jitter.trim() && { jitter: jitter.trim() }) })}`];
    if (catchUp.trim()) parts.push(`"catch_up":${JSON.stringify(catchUp.trim())}`);
    parts.push(`"overlap":${JSON.stringify(overlap)}`);
    if (overlap === "queue" && queueLimit.trim()) parts.push(`"queue_limit":${Number(queueLimit)}`);
    if (changed) parts.push(`"input":${input}`);
    return patch(["schedules", s.name], `{${parts.join(",")}}`);
  };
  return (
    <Confirm wide onClose={onClose} act={{
      title: `Edit ${s.name}`, verb: "Save schedule", keep: "Leave as it is", done: "Schedule changed",
      what: "Fires after this follow the new timetable. Runs that were started go on.", run: async () => save(),
    }}>
      <div class="columns">
        <div class="gap">
          <fieldset class="row"><legend class="sr">When it fires</legend>
            {(["cron", "every"] as const).map((k) => (
              <label key={k} class="row check"><input type="radio" name="kind" value={k} checked={kind === k} onChange={() => setKind(k)} />{k === "cron" ? "By a cron expression" : "At an interval"}</label>
            ))}
          </fieldset>
          {kind === "cron" ? (
            <div class="row">
              <label class="field grow"><span>Cron <span class="muted">(minute, hour, day, month, weekday)</span></span><input class="input mono" name="cron" value={cron} onInput={(e) => setCron(e.currentTarget.value)} /></label>
              <label class="field grow"><span>Time zone</span><input class="input" name="time_zone" placeholder="UTC" value={zone} onInput={(e) => setZone(e.currentTarget.value)} /></label>
            </div>
          ) : (
            <label class="field"><span>Every, such as 15m or 24h</span><input class="input mono" name="every" value={every} onInput={(e) => setEvery(e.currentTarget.value)} /></label>
          )}
          <div class="row">
            <label class="field grow"><span>Spread by up to</span><input class="input mono" name="jitter" placeholder="0s" value={jitter} onInput={(e) => setJitter(e.currentTarget.value)} /></label>
            <label class="field grow"><span>Make up missed fires of</span><input class="input mono" name="catch_up" placeholder="1h" value={catchUp} onInput={(e) => setCatchUp(e.currentTarget.value)} /></label>
          </div>
          <label class="field"><span>While the last run is open</span>
            <select class="input" name="overlap" value={overlap} onChange={(e) => setOverlap(e.currentTarget.value)}>
              {overlaps.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
            </select></label>
          {overlap === "queue" && (
            <label class="field"><span>Most fires that wait</span><input class="input" name="queue_limit" inputMode="numeric" value={queueLimit} onInput={(e) => setQueueLimit(e.currentTarget.value)} /></label>
          )}
          <fieldset class="field"><legend>Input of its runs</legend>
            {!session.reads ? <><Hidden /><Replace input={input} onChange={setInput} /></>
              : was === undefined ? <ValueView value={present} label="Input of its runs" />
              : flow.loading ? null
              : <SchemaEditor schema={schema} text={input ?? was} onChange={setInput} errors={{}} name="Input" />}
          </fieldset>
        </div>
        <Preview name={s.name} timing={timing} />
      </div>
    </Confirm>
  );
}

// Replace gives another input to those who may not read the present one.
const Replace = ({ input, onChange }: { input: string | undefined; onChange(text: string | undefined): void }) => (
  <>
    <label class="row check"><input type="checkbox" name="with_input" checked={input !== undefined} onChange={(e) => onChange(e.currentTarget.checked ? "" : undefined)} />Replace it</label>
    {input !== undefined && <SchemaEditor schema={undefined} text={input} onChange={onChange} errors={{}} name="Input" />}
  </>
);

// Preview lists the times that a timing would give, and marks changes of the clock.
function Preview({ name, timing }: { name: string; timing: Record<string, string> }) {
  const [settled, setSettled] = useState(timing);
  const key = JSON.stringify(timing);
  useEffect(() => {
    const timer = setTimeout(setSettled, 250, timing);
    return () => clearTimeout(timer);
  }, [key]);
  const given = !!(settled["cron"] || settled["every"]);
  const fires = useLoad<Page<string>>(
    (s) => given ? get(["schedules", name, "fires"], { ...settled, limit: 10 }, s) : Promise.resolve({ items: [] }), [name, settled]);
  const list = fires.data?.items ?? [];
  return (
    <section class="gap" data-preview={list.length}>
      <h3>Next ten times</h3>
      {fires.error && <p class="fault" role="alert">{fires.error.message}</p>}
      <ul class="ev">
        {list.map((t, i) => (
          <li key={t}><Time at={t} /><span class="muted grow">{i === 0 ? <Ago at={t} /> : `${span(Date.parse(t) - Date.parse(list[i - 1]!))} later`}</span>
            {clockChange(list, i) && <span class="tag">clock change</span>}</li>
        ))}
        {!fires.error && list.length === 0 && <li class="muted">{fires.loading ? "" : "None"}</li>}
      </ul>
    </section>
  );
}

// clockChange reports whether the gap before a daily time is an hour off a day.
function clockChange(list: string[], i: number): boolean {
  if (i === 0) return false;
  const hours = (Date.parse(list[i]!) - Date.parse(list[i - 1]!)) / 3_600_000;
  return hours >= 23 && (hours % 24 === 23 || hours % 24 === 1);
}

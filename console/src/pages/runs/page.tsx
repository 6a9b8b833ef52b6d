import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { Explanation, Flow, Lane, Page, Run, RunNow } from "../../api/types";
import { useKeys } from "../../app/keys";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { setPrefs, usePrefs } from "../../app/prefs";
import { go, href, Link, runPath, setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { count, exact, plural } from "../../lib/text";
import { Empty, Fault, Loading, NewPill, Segmented } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import { StateLabel, states, type StateKey } from "../../ui/state";
import { usePolled } from "../../ui/polled";
import { Time } from "../../ui/time";
import { BulkBar } from "./bulk";
import { Chips } from "./chips";
import { filtersOf, isFiltered, parametersOf, queryText, search, type Filters } from "./filters";
import { Histogram } from "./histogram";
import { keyOf, RunTable } from "./table";

const pageSize = 50;

// RunsPage is the list of runs.
export function RunsPage() {
  const session = useSession();
  const query = useQuery();
  const filters = useMemo(() => filtersOf(query), [query]);
  const { density } = usePrefs();
  const list = useRuns(filters);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  const counts = useLoad<Tally>((s) => tallyOf(filters, s), [{ ...filters, states: [] }]);
  const flows = useLoad<Page<Flow>>((s) => get(["flows"], {}, s), []);
  const stale = useRef(0);
  useFeed(() => {
    clearTimeout(stale.current);
    stale.current = window.setTimeout(() => counts.reload(), 1000);
  });
  useEffect(() => () => clearTimeout(stale.current), []);
  useEffect(() => {
    setSelected(new Set());
    setAll(false);
  }, [filters]);
  const clear = useCallback(() => (setSelected(new Set()), setAll(false)), []);
  useKeys("Runs", [
    { keys: "n", does: "show the new runs", run: list.reload },
    { keys: "Escape", does: "clear the selection", run: clear },
    { keys: "j", does: "next run", run: () => moveFocus(1) },
    { keys: "k", does: "previous run", run: () => moveFocus(-1) },
  ]);
  const total = Object.entries(counts.data?.states ?? {})
    .filter(([state]) => !filters.states.length || filters.states.includes(state)).reduce((n, [, runs]) => n + runs, 0);
  return (
    <>
      <Top search={false} crumbs={<h1>Runs</h1>}>
        {session.may("operate") && (
          <Link class="btn primary" to={href(["flows"])}><Icon name="plus" /> Start a run</Link>
        )}
      </Top>
      <div class="page">
        <SearchBox filters={filters} flows={[...new Set([...(flows.data?.items ?? []).map((f) => f.name), ...(list.runs ?? []).map((r) => r.flow)])]} />
        <Chips filters={filters} flows={flows.data?.items ?? []} />
        <States tally={counts.data} filters={filters} />
        <PausedLanes runs={list.runs ?? []} now={list.now} />
        <section class="card fill" aria-label="List of runs">
          <header>
            <h2>{!counts.data ? "Runs" : <>{counts.data.more ? "more than " : ""}{plural(total, "run")}</>}</h2>
            <span class="s muted desk">newest first; starts per hour of {filters.flow || "all flows"}, failures in red</span>
            <span class="grow" />
            <span class="desk">
              <Segmented label="Height of rows" value={density} onChange={(d) => setPrefs({ density: d })}
                options={[["dense", "Dense"], ["roomy", "Roomy"]]} />
            </span>
          </header>
          <Histogram filters={filters} />
          <div class="scroll" data-density={density}>
            <NewPill n={list.fresh} onClick={list.reload} />
            {list.error && <Fault error={list.error} retry={list.reload} />}
            {!list.runs && !list.error && <Loading />}
            {!list.error && list.runs?.length === 0 && <NoRuns filters={filters} />}
            {list.incomplete && <p class="s muted" role="note">Older runs may be missing: the index of these words keeps the newest.</p>}
            {!list.error && list.runs && list.runs.length > 0 && (
              <RunTable runs={list.runs} now={list.now} filters={filters} selectable={session.may("operate")}
                selected={selected} all={all} onSelect={(s) => (setSelected(s), setAll(false))} />
            )}
            {list.more && (
              <div class="more"><button type="button" class="btn" onClick={list.next}>Show {pageSize} more</button></div>
            )}
          </div>
          {(selected.size > 0 || all) && (
            <BulkBar all={all} total={total} filters={filters} onAll={() => setAll(true)} onClear={clear}
              runs={(list.runs ?? []).filter((r) => selected.has(keyOf(r)))} />
          )}
        </section>
      </div>
    </>
  );
}

function moveFocus(step: number) {
  const rows = [...document.querySelectorAll<HTMLElement>("td.id a")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

function NoRuns({ filters }: { filters: Filters }) {
  if (isFiltered(filters)) {
    return (
      <Empty title="No run matches.">
        <Link class="btn" to={href(["runs"])}>Remove the filters</Link>
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet.">
      <p>A run is one execution of a flow. Programs, schedules and people start them.</p>
      <Link class="btn" to={href(["flows"])}>Show the flows</Link>
    </Empty>
  );
}

interface Tally { states: Record<string, number>; more?: boolean }

// tallyOf counts the runs that match, whatever their state. The engine has counts of flows; for other filters it looks at
// the runs, as for a bulk job.
async function tallyOf(f: Filters, signal: AbortSignal): Promise<Tally> {
  if (!f.q && !f.tags.length && !f.from && !f.before && !f.key && !f.queued) {
    const page = await get(["counts"], { flow: f.flow, by: ["state"] }, signal);
    return { states: Object.fromEntries(page.items.map((c) => [c.state!, c.runs ?? 0])) };
  }
  const query = queryText({ ...f, states: [] });
  return post(["bulk", "preview"], { query, action: { kind: "cancel" } });
}

// useRuns loads the list page by page. Rows keep their places: new runs are counted, others change where they are.
function useRuns(filters: Filters) {
  const [runs, setRuns] = useState<Run[]>();
  const [now, setNow] = useState<ReadonlyMap<string, RunNow>>(new Map());
  const [next, setNext] = useState<string>();
  const [incomplete, setIncomplete] = useState(false);
  const [error, setError] = useState<Error>();
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  const [version, setVersion] = useState(0);
  const shown = useRef<Run[]>([]);
  shown.current = runs ?? [];

  const explain = useCallback(async (list: Pick<Run, "flow" | "run">[]) => {
    if (list.length === 0) return;
    const page = await post(["runs", "explain"],
      { runs: list.slice(0, 100).map(({ flow, run }) => ({ flow, run })) }).catch(() => undefined);
    if (!page) return;
    const found = new Map(page.items.map((n) => [keyOf(n), n]));
    setNow((old) => new Map([...old, ...found]));
    setRuns((old) => old?.map((r) => {
      const n = found.get(keyOf(r));
      return n ? { ...r, state: n.state, nodes: n.nodes, began_at: n.began_at, closed_at: n.closed_at!, paused_at: n.paused_at! } : r;
    }));
  }, []);

  useEffect(() => {
    const stop = new AbortController();
    get(["runs"], { ...parametersOf(filters), limit: pageSize }, stop.signal).then(
      (page) => {
        setRuns(page.items);
        setNext(page.next);
        setIncomplete(!!page.incomplete);
        setError(undefined);
        setFresh(new Set());
        void explain(page.items.filter(unclear));
      },
      (e: Error) => stop.signal.aborted || setError(e),
    );
    return () => stop.abort();
  }, [filters, version]);

  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) void explain(shown.current.filter((r) => r.state === "running"));
    }, 5000);
    return () => clearInterval(timer);
  }, [explain]);

  const reload = useCallback(() => setVersion((v) => v + 1), []);
  useFeed((events) => {
    if (events.some((e) => e.kind === "caught_up")) return reload();
    const rows = new Set(shown.current.map(keyOf));
    const touched = events.filter((e) => rows.has(keyOf(e)));
    void explain([...new Map(touched.map((e) => [keyOf(e), e])).values()]);
    const begun = events.filter((e) => e.kind === "flow_submitted" && !e.child && !rows.has(keyOf(e)) && fits(e, filters));
    if (begun.length) setFresh((old) => new Set([...old, ...begun.map(keyOf)]));
  });

  const more = async () => {
    const page = await get(["runs"], { ...parametersOf(filters), limit: pageSize, cursor: next })
      .catch((e: Error) => (setError(e), undefined));
    if (!page) return;
    setRuns((old) => [...(old ?? []), ...page.items]);
    setNext(page.next);
    void explain(page.items.filter(unclear));
  };
  return { runs, now, error, incomplete, fresh: fresh.size, more: !!next, next: more, reload };
}

const unclear = (r: Run) => r.state === "running" || r.state === "failed";

function fits(e: { flow: string; run: string }, f: Filters): boolean {
  const text = f.q.toLowerCase();
  if (f.flow && f.flow !== e.flow) return false;
  if (f.states.length && !f.states.includes("running")) return false;
  return !text || e.run.toLowerCase().includes(text) || e.flow.toLowerCase().includes(text);
}

// jump returns the run that has exactly this id, if one flow has. It asks the flows that are known: the list of all runs
// would have to be looked through.
async function jump(id: string, flows: string[]): Promise<Pick<Run, "flow" | "run"> | undefined> {
  if (flows.length) {
    const runs = flows.slice(0, 100).map((flow) => ({ flow, run: id }));
    const page = await post(["runs", "explain"], { runs }).catch(() => undefined);
    if (page?.items.length === 1) return page.items[0];
    if (page?.items.length) return undefined;
  }
  const found = await get(["runs"], { text: id, limit: 20, children: true }).catch(() => undefined);
  const same = found?.items.filter((r) => r.run === id) ?? [];
  return same.length === 1 ? same[0] : undefined;
}

function SearchBox({ filters, flows }: { filters: Filters; flows: string[] }) {
  const [text, setText] = useState(filters.q);
  useEffect(() => setText(filters.q), [filters.q]);
  const submit = async (e: Event) => {
    e.preventDefault();
    const typed = text.trim();
    if (typed && !/\s/.test(typed)) {
      const run = await jump(typed, flows);
      if (run) return go(href(runPath(run.flow, run.run)));
    }
    search(typed);
  };
  const words = useWords(text);
  return (
    <form class="search" role="search" onSubmit={submit}>
      <Icon name="search" />
      <input data-search name="q" type="search" aria-label="Search runs" value={text} autocomplete="off"
        placeholder="An id, or words such as: failed yesterday customer.id:broke card declined" list="search-words"
        onInput={(e) => setText(e.currentTarget.value)} />
      <datalist id="search-words">{words.map((word) => <option key={word} value={word} />)}</datalist>
      <kbd class="kbd desk">/</kbd>
    </form>
  );
}

// useWords completes the last word of a search.
function useWords(text: string): string[] {
  const [words, setWords] = useState<string[]>([]);
  useEffect(() => {
    const [, before = "", word = ""] = text.match(/^(.*?)(\S*)$/) ?? [];
    if (!word) return setWords([]);
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      get(["search-words"], { word }, stop.signal).then((page) => setWords(page.items.map((w) => before + w)), () => undefined);
    }, 150);
    return () => (clearTimeout(timer), stop.abort());
  }, [text]);
  return words;
}

// PausedLanes says in which paused lanes runs of the list wait.
function PausedLanes({ runs, now }: { runs: readonly Run[]; now: ReadonlyMap<string, RunNow> }) {
  const lanes = new Map<string, { why: Explanation; runs: number }>();
  for (const r of runs) {
    const why = r.state === "running" ? now.get(keyOf(r))?.waiting : undefined;
    if (why?.reason !== "lane_paused" || !why.subject) continue;
    lanes.set(why.subject, { why, runs: (lanes.get(why.subject)?.runs ?? 0) + 1 });
  }
  return (
    <>
      {[...lanes].sort().map(([lane, { why, runs: n }]) => (
        <p key={lane} class="why w-held" data-paused-lane={lane}>
          Lane <Link class="link mono" to={href(["lanes", lane])}>{lane}</Link> is paused{why.by ? ` by ${why.by}` : ""}
          {why.since && <> since <Time at={why.since} /></>}: {plural(n, "run")} of this list {n === 1 ? "waits" : "wait"} until it is resumed.
        </p>
      ))}
    </>
  );
}

const shownStates: readonly StateKey[] = ["running", "succeeded", "failed", "cancelled", "expired"];

// States counts runs by state; each count is a filter.
function States({ tally, filters }: { tally: Tally | undefined; filters: Filters }) {
  const { pending } = useSession();
  const lanes = useLoad<Page<Lane>>((s) => get(["lanes"], {}, s), []);
  usePolled(lanes.reload);
  const stuck = (state?: string) => (lanes.data?.items ?? [])
    .reduce((n, { health: h }) => n + (h.state !== "ok" && (!state || h.state === state) ? h.nodes ?? 0 : 0), 0);
  const total = Object.values(tally?.states ?? {}).reduce((a, b) => a + b, 0);
  const number = (n: number) => <b title={exact(n)}>{tally ? count(n) : "–"}</b>;
  return (
    <div class="stats" role="group" aria-label="Runs by state">
      <button type="button" class={filters.states.length ? "" : "on"} aria-pressed={!filters.states.length}
        onClick={() => setQuery({ state: undefined })}><span class="st">All</span>{number(total)}</button>
      {shownStates.map((key) => (
        <button key={key} type="button" data-state={key} class={filters.states.includes(key) ? "on" : ""}
          aria-pressed={filters.states.includes(key)}
          onClick={() => setQuery({ state: filters.states.includes(key) ? undefined : key })}>
          <StateLabel state={states[key]} />{number(tally?.states[key] ?? 0)}
        </button>
      ))}
      <Link to={href(["inbox"])}><StateLabel state={states.person} />{number(pending)}</Link>
      {([["stuck", states.late, "Stuck nodes", stuck()], ["unserved", states.unserved, "No worker", stuck("unserved")]] as const)
        .map(([key, state, word, n]) => (
          <Link key={key} to={href(["lanes"])} title="Nodes of all runs that do not start until somebody acts" data-stuck={key}>
            <StateLabel state={{ ...state, hue: n ? state.hue : "idle" }} word={word} /><b>{lanes.data ? count(n) : "–"}</b>
          </Link>
        ))}
    </div>
  );
}

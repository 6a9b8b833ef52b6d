import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { login, token } from "../api/client";
import { clock, span, zoneName } from "../lib/time";
import { Dialog } from "../ui/dialog";
import { Icon, Mark, type IconName } from "../ui/icon";
import { useNow } from "../ui/time";
import { allKeys, useKeys } from "./keys";
import { live, useLive } from "./live";
import { prefs, setPrefs, usePrefs } from "./prefs";
import { go, href, Link, runPath } from "./router";
import { faults, useSession } from "./session";

interface Entry { name: string; icon: IconName; path: string; key?: string }

const menu: { title?: string; entries: Entry[] }[] = [
  {
    entries: [
      { name: "Health", icon: "health", path: "health", key: "h" },
      { name: "Runs", icon: "runs", path: "runs", key: "r" }, { name: "Inbox", icon: "inbox", path: "inbox", key: "i" },
      { name: "Flows", icon: "flows", path: "flows", key: "f" },
      { name: "Schedules", icon: "schedules", path: "schedules", key: "s" },
    ],
  },
  {
    title: "Capacity",
    entries: [
      { name: "Lanes", icon: "lanes", path: "lanes", key: "l" }, { name: "Limits", icon: "limits", path: "limits" },
      { name: "Budgets", icon: "budgets", path: "budgets", key: "b" },
    ],
  },
  {
    title: "Fleet",
    entries: [
      { name: "Workers", icon: "workers", path: "workers", key: "w" },
      { name: "Keepers", icon: "keepers", path: "keepers" },
    ],
  },
  {
    title: "Record",
    entries: [
      { name: "Bulk jobs", icon: "bulk", path: "bulk" }, { name: "Audit", icon: "audit", path: "audit", key: "a" },
    ],
  },
];

interface ShellProps { section: string; canvas?: boolean; children: ComponentChildren }

// Shell is the frame of all pages: navigation at the left, at the bottom of a phone.
export function Shell({ section, canvas, children }: ShellProps) {
  const { rail } = usePrefs();
  const [help, setHelp] = useState(false);
  const [find, setFind] = useState(false);
  useKeys("Everywhere", [
    { keys: "?", does: "all keys of this page", run: () => setHelp(true) },
    { keys: "/", does: "search, go to", run: () => focusSearch() || setFind(true) },
    { keys: "t", does: "UTC or local times", run: toggleZone },
    { keys: "[", does: "wide or narrow navigation", run: () => setPrefs({ rail: !rail }) },
    ...menu.flatMap((g) => g.entries).filter((e) => e.key).map((e) => ({
      keys: `g ${e.key}`, does: e.name, run: () => go(href([e.path])),
    })),
  ]);
  return (
    <div class={`frame${rail || canvas ? " rail" : ""}`}>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Navigation section={section} />
      <main id="main" tabIndex={-1}>{children}</main>
      <Tabs section={section} onFind={() => setFind(true)} />
      {help && <Keys onClose={() => setHelp(false)} />}
      {find && <Find onClose={() => setFind(false)} />}
    </div>
  );
}

// focusSearch puts the cursor into the search box of the page, if it has one.
function focusSearch(): boolean {
  const box = document.querySelector<HTMLInputElement>("input[data-search]");
  box?.focus();
  box?.select();
  return !!box;
}

// localName is the name of the browser's zone, beside UTC.
const localName = () => zoneName("local") === "UTC" ? "Local" : zoneName("local");

const toggleZone = () => setPrefs({ zone: prefs().zone === "utc" ? "local" : "utc" });

function Navigation({ section }: { section: string }) {
  const session = useSession();
  const who = session.server.principal;
  return (
    <nav class="nav" aria-label="Main">
      <Link to={href(["runs"])} class="brand" aria-label="FlowFabric"><Mark /><span class="t">FlowFabric</span></Link>
      <div class="ns ell" title={`Namespace ${session.server.namespace}`}>
        <Icon name="flows" size={14} /><span class="ell">{session.server.namespace}</span>
      </div>
      {menu.map((group, i) => (
        <div key={i} class="part">
          {group.title && <p class="title t">{group.title}</p>}
          {i > 0 && <hr />}
          {group.entries.map((e) => <Item key={e.path} entry={e} current={section === e.path} />)}
        </div>
      ))}
      <div class="foot">
        <Link to={href(["settings"])} title="Settings" aria-current={section === "settings" ? "page" : undefined}
          class="me">
          <span class="avatar" aria-hidden="true">{initials(who.name || "?")}</span>
          <span class="t ell">{who.name || "nobody"}<small>{roleWord(session)}</small></span>
          <span class="t"><Icon name="settings" /></span>
        </Link>
      </div>
    </nav>
  );
}

function roleWord(session: ReturnType<typeof useSession>): string {
  const may = new Set(session.server.principal.rights ?? []);
  if (session.server.read_only) return "read-only console";
  return may.has("administer") ? "administrator" : may.has("operate") ? "operator"
    : may.has("approve") ? "approver" : "viewer";
}

const initials = (name: string) =>
  name.split(/[\s._@-]+/).filter(Boolean).slice(0, 2).map((p) => p[0]!.toUpperCase()).join("");

function Item({ entry, current }: { entry: Entry; current: boolean }) {
  const { pending, health } = useSession();
  const [n, of] = entry.path === "inbox" ? [pending, "open asks"] : entry.path === "health" ? [faults(health).length, "faults"] : [0, ""];
  return (
    <Link to={href([entry.path])} aria-current={current ? "page" : undefined} title={entry.name}>
      <Icon name={entry.icon} />
      <span class="t">{entry.name}</span>
      {n > 0 && <span class={`n hot${entry.path === "health" ? " bad" : ""}`}>{n > 99 ? "99+" : n}<span class="sr"> {of}</span></span>}
    </Link>
  );
}

// Tabs is the navigation of a phone.
function Tabs({ section, onFind }: { section: string; onFind(): void }) {
  const { pending, health } = useSession();
  const bad = faults(health).length;
  const link = (path: string, icon: IconName, name: string) => (
    <Link to={href([path])} aria-current={section === path ? "page" : undefined}>
      <Icon name={icon} size={20} />{name}
      {path === "health" && bad > 0 && <span class="n bad">{bad}<span class="sr"> faults</span></span>}
      {path === "inbox" && pending > 0 && <span class="n">{pending}<span class="sr"> open asks</span></span>}
    </Link>
  );
  return (
    <nav class="tabbar" aria-label="Sections">
      {link("health", "health", "Health")}
      {link("inbox", "inbox", "Inbox")}
      {link("runs", "runs", "Runs")}
      <button type="button" onClick={onFind}><Icon name="search" size={20} />Search</button>
      {link("settings", "settings", "Settings")}
    </nav>
  );
}

interface TopProps { crumbs: ComponentChildren; children?: ComponentChildren; search?: boolean }

// Top is the bar above a page: where one is, the page's action, and whether it is live.
export function Top({ crumbs, children, search = true }: TopProps) {
  const { zone } = usePrefs();
  const { server } = useSession();
  const [find, setFind] = useState(false);
  return (
    <>
      <header class="top">
        <div class="crumb grow">{crumbs}</div>
        {children}
        <LiveState />
        <span class="seg desk" role="group" aria-label="Time zone">
          <button type="button" class={zone === "utc" ? "on" : ""} aria-pressed={zone === "utc"}
            onClick={() => setPrefs({ zone: "utc" })}>UTC</button>
          <button type="button" class={zone === "local" ? "on" : ""} aria-pressed={zone === "local"}
            onClick={() => setPrefs({ zone: "local" })}>{localName()}</button>
        </span>
        <button type="button" class="phone s soft" aria-label={`Times in ${zoneName(zone)}. Change the zone.`} onClick={toggleZone}>{zoneName(zone)}</button>
        {search && (
          <button type="button" class="btn desk" onClick={() => setFind(true)}>
            <Icon name="search" /> Go to <kbd class="kbd">/</kbd>
          </button>
        )}
      </header>
      {server.read_only && <p class="note">Read-only: actions are off on this console.</p>}
      {find && <Find onClose={() => setFind(false)} />}
    </>
  );
}

// LiveState says whether the page is up to date; a click freezes it.
function LiveState() {
  const state = useLive();
  const { zone } = usePrefs();
  const now = useNow(state.state === "lost" || state.state === "stalled");
  let text = "Live";
  if (state.state === "connecting" || state.state === "hidden") text = "Connecting";
  if (state.state === "paused") text = state.missed ? `Paused, ${state.missed} missed` : "Paused";
  if (state.state === "failed" || state.state === "ended") text = "Not live";
  if (state.state === "stalled") text = `The engine has not answered for ${span(now.getTime() - state.since.getTime())}`;
  if (state.state === "lost") {
    const left = Math.max(0, Math.ceil((state.retryAt.getTime() - now.getTime()) / 1000));
    text = `No connection since ${clock(state.since, zone)}, trying again in ${left} s`;
  }
  return (
    <button type="button" class={`live l-${state.state}`} data-live={state.state} onClick={() => live.toggle()}
      title={state.state === "paused" ? "Go on" : "Freeze the page"}>
      <i />{text}
    </button>
  );
}

function Keys({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keys" onClose={onClose} wide>
      <div class="keys">
        {allKeys().map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.list.map((k) => (
                <div key={k.keys}>
                  <dt>{k.keys.split(" ").map((one) => <kbd key={one} class="kbd">{one}</kbd>)}</dt>
                  <dd>{k.does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="s muted">Keys do nothing while a field has the focus. They can be turned off in the settings.</p>
    </Dialog>
  );
}

// Find goes to a page by its name, or looks for runs.
function Find({ onClose }: { onClose(): void }) {
  const [text, setText] = useState("");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  const pages = menu.flatMap((g) => g.entries).filter((e) => e.name.toLowerCase().includes(text.toLowerCase()));
  const open = (to: string) => (onClose(), go(to));
  const submit = (e: Event) => {
    e.preventDefault();
    const [flow, run] = text.split("/", 2);
    if (flow && run) return open(href(runPath(flow, text.slice(flow.length + 1))));
    open(text ? href(["runs"], { q: text }) : href(["runs"]));
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <form onSubmit={submit} class="gap">
        <label class="field">
          <span>Run id, words, or a page</span>
          <input ref={box} class="input" name="find" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <div class="found">
          {text && <button class="btn quiet">Runs that match <code>{text}</code></button>}
          {pages.map((p) => (
            <button key={p.path} type="button" class="btn quiet" onClick={() => open(href([p.path]))}>
              <Icon name={p.icon} /> {p.name}
            </button>
          ))}
        </div>
      </form>
    </Dialog>
  );
}

// SignIn asks for a token of a server that wants one.
export function SignIn({ message, onDone }: { message: string; onDone(): void }) {
  const [text, setText] = useState("");
  return (
    <main class="signin" id="main">
      <form class="card pad gap" onSubmit={(e) => (e.preventDefault(), token.set(text.trim()), onDone())}>
        <div class="row"><Mark /><h1>FlowFabric</h1></div>
        <p class="soft">{message}</p>
        {login() && <a class="btn primary" href={login()}>Log in</a>}
        <label class="field">
          <span>Token</span>
          <input class="input mono" type="password" name="token" autocomplete="current-password" value={text}
            onInput={(e) => setText(e.currentTarget.value)} />
          <span class="hint">From <code>flowfabric token create</code>. It is kept until this tab is closed.</span>
        </label>
        <button class="btn primary" disabled={!text.trim()}>Sign in</button>
      </form>
    </main>
  );
}

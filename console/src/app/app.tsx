import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, get, root, token } from "../api/client";
import { expectHeartbeat } from "../api/stream";
import { isMine } from "../lib/ask";
import type { Inspection, Page, ServerInfo, Wait } from "../api/types";
import { AuditPage } from "../pages/audit/page";
import { BudgetsPage } from "../pages/budgets/page";
import { BulkPage } from "../pages/bulk/page";
import { FlowsPage } from "../pages/flows/page";
import { HealthPage } from "../pages/health/page";
import { InboxPage } from "../pages/inbox/page";
import { KeepersPage } from "../pages/keepers/page";
import { LanesPage } from "../pages/lanes/page";
import { LimitsPage } from "../pages/limits/page";
import { RunPage } from "../pages/run/page";
import { RunsPage } from "../pages/runs/page";
import { SchedulesPage } from "../pages/schedules/page";
import { SettingsPage } from "../pages/settings/page";
import { StartPage } from "../pages/start/page";
import { WorkersPage } from "../pages/workers/page";
import { goDuration } from "../lib/time";
import { Empty, Fault, Loading } from "../ui/basic";
import { usePolled } from "../ui/polled";
import { live, useFeed } from "./live";
import { useLoad } from "./load";
import { href, Link, replace, usePlace } from "./router";
import { mayOf, SessionContext, type Session } from "./session";
import { Shell, SignIn, Top } from "./shell";

// App finds out who uses the console, and shows the page of the address.
export function App() {
  const server = useLoad<ServerInfo>((signal) => get(["server"], {}, signal), []);
  if (server.error instanceof ApiError && [401, 403].includes(server.error.status)) {
    return <SignIn message={signInText(server.error)} onDone={server.reload} />;
  }
  if (server.error && !server.data) return <main id="main"><Fault error={server.error} retry={server.reload} /></main>;
  if (!server.data) return <main id="main"><Loading /></main>;
  return <Console server={server.data} />;
}

const signInText = (e: ApiError) =>
  e.status === 401 && token.get() ? "The token is not valid, or not any more." : "This server asks who you are.";

interface Message { id: number; text: string; bad: boolean; link?: { to: string; text: string } | undefined }

// Console is the console of a principal.
function Console({ server }: { server: ServerInfo }) {
  const [messages, setMessages] = useState<Message[]>([]);
  const next = useRef(0);
  const say = useCallback((text: string, bad = false, link?: Message["link"]) => {
    const id = next.current++;
    setMessages((m) => [...m.slice(-2), { id, text, bad, link }]);
    window.setTimeout(() => setMessages((m) => m.filter((one) => one.id !== id)), link ? 12_000 : 6000);
  }, []);
  const waits = useLoad<Page<Wait>>((signal) => get(["waits"], { limit: 100 }, signal), []);
  useFeed((events) => {
    if (events.some((e) => e.node || e.kind.startsWith("flow_") || e.kind === "caught_up")) waits.reload();
  });
  useEffect(() => {
    expectHeartbeat(goDuration(server.heartbeat));
    return live.start();
  }, [server.heartbeat]);
  const health = useLoad<Inspection>((signal) => get(["inspection"], {}, signal), []);
  usePolled(health.reload, 10_000);
  const pending = waits.data?.items.filter((w) => isMine(w, server.principal)).length ?? 0;
  const session = useMemo<Session>(() => {
    const may = mayOf(server);
    return { server, may, reads: may("payloads:read"), say, pending, health };
  }, [server, say, pending, health.data, health.error]);
  return (
    <SessionContext.Provider value={session}>
      <Routes />
      <div class="toasts" role="status" aria-live="polite">
        {messages.map((m) => <div key={m.id} class={`toast${m.bad ? " bad" : ""}`}>{m.text}{m.link && <>{" "}<Link to={m.link.to}>{m.link.text}</Link></>}</div>)}
      </div>
    </SessionContext.Provider>
  );
}

function Routes() {
  const { path } = usePlace();
  const [section = "", a, b] = path;
  const named = a !== undefined && b !== undefined ? `${b} · ${a}` : a;
  useEffect(() => {
    const name = section ? titles[section] ?? "Not found" : "Runs";
    document.title = [named, name, "FlowFabric"].filter(Boolean).join(" · ");
  }, [section, named]);
  useEffect(() => {
    if (section === "") replace(new URL("runs", root).href);
  }, [section]);
  const canvas = (section === "runs" && !!a && !!b) || (section === "flows" && !!a && b !== "start");
  return (
    <Shell section={section || "runs"} canvas={canvas}>
      <PageOf path={path} />
    </Shell>
  );
}

const titles: Record<string, string> = {
  health: "Health", runs: "Runs", inbox: "Inbox", flows: "Flows", schedules: "Schedules", lanes: "Lanes", limits: "Limits",
  budgets: "Budgets", workers: "Workers", keepers: "Keepers", bulk: "Bulk jobs", audit: "Audit", settings: "Settings",
};

function PageOf({ path }: { path: string[] }) {
  const [section = "", a, b] = path;
  switch (section) {
    case "":
      return null;
    case "health":
      return <HealthPage />;
    case "runs":
      return a && b ? <RunPage key={`${a}/${b}`} flow={a} run={b} /> : <RunsPage />;
    case "inbox":
      return <InboxPage />;
    case "flows":
      return a && b === "start" ? <StartPage key={a} flow={a} /> : <FlowsPage name={a} />;
    case "schedules":
      return <SchedulesPage name={a} />;
    case "lanes":
      return <LanesPage name={a} />;
    case "limits":
      return <LimitsPage name={a} of={b} />;
    case "budgets":
      return <BudgetsPage />;
    case "workers":
      return <WorkersPage />;
    case "keepers":
      return <KeepersPage />;
    case "bulk":
      return <BulkPage id={a} />;
    case "audit":
      return <AuditPage />;
    case "settings":
      return <SettingsPage />;
    default:
      return (
        <>
          <Top crumbs={<h1>Not found</h1>} />
          <Empty title="There is no such page."><Link class="btn" to={href(["runs"])}>Go to the runs</Link></Empty>
        </>
      );
  }
}

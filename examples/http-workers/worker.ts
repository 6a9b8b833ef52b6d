// A worker of FlowFabric in TypeScript without dependencies, for Node 18 or later:
// esbuild worker.ts --format=esm --outfile=worker.mjs && FLOWFABRIC_SERVER=http://localhost:8080 node worker.mjs
declare const process: { env: Record<string, string | undefined>; pid: number };

interface Signal { name: string; json?: any }
interface Task { token: string; activity: string; node: string; attempt: number; input: any; signals?: Signal[] }
interface Wait { signals?: string[]; title?: string; timeout?: string; on_timeout?: string }

const server = (process.env.FLOWFABRIC_SERVER ?? "http://localhost:8080").replace(/\/$/, "") + "/api/v1/tasks/";
const lease = Number(process.env.LEASE_SECONDS ?? "30");
const headers: Record<string, string> = { "Content-Type": "application/json" };
if (process.env.FLOWFABRIC_TOKEN) headers.Authorization = "Bearer " + process.env.FLOWFABRIC_TOKEN;

class Suspend extends Error { constructor(readonly wait: Wait) { super("the task waits for a signal"); } }
class Problem extends Error { constructor(readonly code: string, detail: string) { super(detail); } }

async function call(path: string, body?: unknown): Promise<any> {
  const reply = await fetch(server + path, { method: "POST", headers, body: body && JSON.stringify(body) } as RequestInit);
  const text = await reply.text();
  const value = text ? JSON.parse(text) : {};
  if (!reply.ok) throw new Problem(value.code, value.detail ?? reply.statusText);
  return value;
}

// Each activity gets the task, and a signal that ends when the task is cancelled.
const activities: Record<string, (task: Task, cancelled: AbortSignal) => Promise<unknown>> = {
  async fetch(task) {
    if (task.attempt === 1) throw new Error("the source did not answer"); // the retry policy of the node decides
    return { lines: [1, 2, 3].map((n) => `${task.input.source} ${n}`) };
  },
  async approve(task) {
    if (!task.signals?.length) throw new Suspend({ signals: ["approve"], title: "Publish the report?" });
    return task.signals[0].json;
  },
  async publish(task) {
    await call(task.token + "/logs", { lines: [{ message: "publishing", attrs: task.input.approval }] });
    for (const text of task.input.report.lines)
      await call(task.token + "/frames", { frames: [{ kind: "line", text }] });
    return "published by " + task.input.approval.by;
  },
};

async function work(task: Task): Promise<void> {
  const cancelled = new AbortController();
  const renewal = setInterval(async () => {
    const renewed = await call(task.token + "/renew").catch(() => ({ state: "lost" }));
    if (renewed.state !== "held") cancelled.abort(renewed.reason);
  }, (lease * 1000) / 3);
  try {
    const result = (await activities[task.activity](task, cancelled.signal)) ?? null;
    await call(task.token + "/complete", { result });
  } catch (error: any) {
    if (error instanceof Problem) throw error; // such as lease_lost: another worker has the node
    if (error instanceof Suspend) await call(task.token + "/suspend", error.wait);
    else await call(task.token + "/fail", { reason: String(error.message), category: error.name });
  } finally {
    clearInterval(renewal);
  }
}

for (;;) {
  try {
    const claim = { worker: "node-" + process.pid, activities: Object.keys(activities), lease: lease + "s", wait: "30s" };
    const { task } = await call("claim", claim);
    if (task) await work(task);
  } catch (error: any) {
    console.log(String(error.message ?? error));
    await new Promise((resume) => setTimeout(resume, 1000)); // the server is away, or a lease was lost
  }
}

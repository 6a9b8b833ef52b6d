// Calls of the HTTP API, relative to where the console is mounted.
import { parseReply } from "../lib/json";
import type { Problem } from "./types";

const meta = (name: string) => document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? "";

// root is where the console is mounted. It is read before the first change of the address, to which base is relative.
export const root = new URL(".", document.baseURI);
const base = new URL(meta("flowfabric-api").replace(/\/*$/, "/"), root);

// login is the page that logs people in, if there is one. It leads back to where they were.
export const login = (): string => {
  const page = meta("flowfabric-login");
  return page && `${new URL(page, root).href}?return=${encodeURIComponent(location.pathname + location.search)}`;
};

document.querySelector("base")?.setAttribute("href", root.href);

const tokenKey = "flowfabric.token";

export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set: (text: string) => (text ? sessionStorage.setItem(tokenKey, text) : sessionStorage.removeItem(tokenKey)),
};

// ApiError is a request that failed: the problem that the server named, or a connection that broke.
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
  get code() {
    return this.problem.code;
  }
  get status() {
    return this.problem.status;
  }
  // at returns the message about a part of the body.
  at(pointer: string): string | undefined {
    return this.problem.errors?.find((e) => (e.pointer ?? "") === pointer)?.message;
  }
}

export type Parameters = Record<string, string | number | boolean | string[] | undefined>;

// address returns the URL of an operation. Parts of the path are encoded.
export function address(path: readonly string[], parameters: Parameters = {}): URL {
  const url = new URL(path.map(encodeURIComponent).join("/"), base);
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((v) => url.searchParams.append(name, v));
    else if (value !== undefined && value !== "" && value !== false) url.searchParams.set(name, String(value));
  }
  return url;
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const all: Record<string, string> = { Accept: "application/json", ...more };
  if (token.get()) all["Authorization"] = `Bearer ${token.get()}`;
  return all;
}

export async function failure(reply: Response): Promise<ApiError> {
  const text = await reply.text();
  try {
    return new ApiError(JSON.parse(text) as Problem);
  } catch {
    return new ApiError({
      status: reply.status, code: "http", title: `The server answered with status ${reply.status}.`, retryable: false,
    });
  }
}

interface Options {
  parameters?: Parameters;
  signal?: AbortSignal;
  body?: string | object;
  headers?: Record<string, string>;
}

// Reply is a reply with the ETag of what it describes.
export interface Reply<T> { data: T; etag: string }

async function send<T>(method: string, path: readonly string[], o: Options): Promise<Reply<T>> {
  let reply: Response;
  const sent = headers(o.headers);
  let body: string | undefined;
  if (method !== "GET" && method !== "DELETE") {
    body = typeof o.body === "string" ? o.body : JSON.stringify(o.body ?? {});
    sent["Content-Type"] = "application/json";
  }
  try {
    reply = await fetch(address(path, o.parameters), {
      method, headers: sent, body: body ?? null, signal: o.signal ?? null, credentials: "same-origin",
    });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    throw new ApiError({
      status: 0, code: "no_connection", title: "The server does not answer. Check the connection and try again.",
      retryable: true,
    });
  }
  if (!reply.ok) throw await failure(reply);
  const text = await reply.text();
  return { data: (text ? parseReply(text) : undefined) as T, etag: reply.headers.get("ETag") ?? "" };
}

export const get = async <T>(path: readonly string[], parameters?: Parameters, signal?: AbortSignal): Promise<T> =>
  (await send<T>("GET", path, { ...(parameters && { parameters }), ...(signal && { signal }) })).data;

export const getTagged = <T>(path: readonly string[], parameters?: Parameters, signal?: AbortSignal) =>
  send<T>("GET", path, { ...(parameters && { parameters }), ...(signal && { signal }) });

export const post = async <T = void>(path: readonly string[], body?: string | object, parameters?: Parameters) =>
  (await send<T>("POST", path, { body: body ?? {}, ...(parameters && { parameters }) })).data;

export const put = async <T = void>(path: readonly string[], body: object, parameters?: Parameters, etag?: string) =>
  (await send<T>("PUT", path, {
    body, ...(parameters && { parameters }), ...(etag && { headers: { "If-Match": etag } }),
  })).data;

export const remove = async <T = void>(path: readonly string[], parameters?: Parameters) =>
  (await send<T>("DELETE", path, { ...(parameters && { parameters }) })).data;

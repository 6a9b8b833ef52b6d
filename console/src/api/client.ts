// Calls of the HTTP API, relative to where the console is mounted.
import { parseReply } from "../lib/json";
import type { Body, Method, Outcome, Path, Query } from "./operations";
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
    if (name === "by" && Array.isArray(value)) url.searchParams.set(name, value.join(","));
    else if (Array.isArray(value)) value.forEach((v) => url.searchParams.append(name, v));
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
      type: "about:blank", status: reply.status, code: "http", retryable: false,
      title: `The server answered with status ${reply.status}.`,
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

async function send<M extends Method, P extends Path<M>>(
  method: M, path: P, o: Options,
): Promise<Reply<Outcome<M, P>>> {
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
      type: "about:blank", status: 0, code: "no_connection", retryable: true,
      title: "The server does not answer. Check the connection and try again.",
    });
  }
  if (!reply.ok) throw await failure(reply);
  const text = await reply.text();
  return { data: (text ? parseReply(text) : undefined) as Outcome<M, P>, etag: reply.headers.get("ETag") ?? "" };
}

// get, post, put and remove call the operation of their method that has the path. It must be in the table.
export const get = async <const P extends Path<"GET">>(
  path: P, query?: Query<"GET", P>, signal?: AbortSignal,
): Promise<Outcome<"GET", P>> =>
  (await send<"GET", P>("GET", path, { ...(query && { parameters: query }), ...(signal && { signal }) })).data;

export const getTagged = <const P extends Path<"GET">>(path: P, query?: Query<"GET", P>, signal?: AbortSignal) =>
  send<"GET", P>("GET", path, { ...(query && { parameters: query }), ...(signal && { signal }) });

// post sends a body: an object, or JSON text.
export const post = async <const P extends Path<"POST">>(
  path: P, body?: string | Body<"POST", P>, query?: Query<"POST", P>,
): Promise<Outcome<"POST", P>> =>
  (await send<"POST", P>("POST", path, { body: body ?? {}, ...(query && { parameters: query }) })).data;

export const put = async <const P extends Path<"PUT">>(
  path: P, body: Body<"PUT", P>, query?: Query<"PUT", P>, etag?: string,
): Promise<Outcome<"PUT", P>> =>
  (await send<"PUT", P>("PUT", path, {
    body, ...(query && { parameters: query }), ...(etag && { headers: { "If-Match": etag } }),
  })).data;

export const patch = async <const P extends Path<"PATCH">>(
  path: P, body: string | Body<"PATCH", P>,
): Promise<Outcome<"PATCH", P>> => (await send<"PATCH", P>("PATCH", path, { body })).data;

export const remove = async <const P extends Path<"DELETE">>(
  path: P, query?: Query<"DELETE", P>,
): Promise<Outcome<"DELETE", P>> =>
  (await send<"DELETE", P>("DELETE", path, { ...(query && { parameters: query }) })).data;

// How the client names operations: by method and path. What no operation of the table has does not compile.
import type { Operations } from "./types";

type Name = keyof Operations;

// RunPath is the path of a run.
export type RunPath = Operations["get-run"]["path"];

export type Method = Operations[Name]["method"];

// Path is a path that an operation with the method has.
export type Path<M extends Method> = { [N in Name]: Operations[N] extends { method: M; path: infer P } ? P : never }[Name];

// Called is the operation of a method and a path.
type Called<M extends Method, P extends readonly string[]> = {
  [N in Name]: Operations[N] extends { method: M; path: infer Q } ? (P extends Q ? Operations[N] : never) : never;
}[Name];

// Loose lets undefined stand for what is absent.
type Loose<T> = { [K in keyof T]: T[K] | undefined };

// Query is the parameters of an operation. Those that are undefined, empty or false are not sent.
export type Query<M extends Method, P extends readonly string[]> =
  Called<M, P>["input"] extends { query?: infer Q } ? Loose<NonNullable<Q>> : Record<string, never>;

export type Body<M extends Method, P extends readonly string[]> =
  Called<M, P>["input"] extends { body: infer B extends object } ? B : Record<string, never>;

// Outcome is what an operation returns.
export type Outcome<M extends Method, P extends readonly string[]> = Called<M, P>["output"];

// StreamPath is the path of a stream, and Event what it sends.
export type StreamPath = { [N in Name]: Operations[N] extends { event: unknown; path: infer P } ? P : never }[Name];

export type Event<P extends readonly string[]> = Called<"GET", P> extends { event: infer E } ? E : never;

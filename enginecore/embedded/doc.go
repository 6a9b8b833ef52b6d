// Package embedded runs the engine inside the program: the data store and the Lua functions that a Redis or Valkey server
// would otherwise provide. It is meant for the first minute, for unit tests, command-line tools and programs that are a
// single binary. A client is connected through memory and cannot tell the difference:
//
//	engine, err := embedded.Open(ctx, embedded.Options{Library: source, Dir: "data"})
//	client, err := rueidis.NewClient(engine.ClientOption())
//
// # What it is
//
// One gate admits one command, transaction or function call at a time, with the clock standing still for its length, so
// functions are as atomic as on a server. Commands and replies follow Redis 7.0, in both protocol versions; numbers are
// turned into text as Valkey 8 does. Only the commands that the FlowFabric library and its clients use exist.
//
// With a data directory, everything that a call changed is one record of a log. Under FsyncAlways a reply leaves once
// all that it rests on is on disk; calls of several connections share a sync. A crash loses no answered call and leaves
// none by half. The log is replaced by a snapshot when it has grown.
//
// # When the disk fails
//
// What is not in the log is seen by nobody. A call whose record cannot be written, for want of room for instance, is refused with
// an error that begins with MISCONF, and so is every other call that reads or writes data, until the log can be written again.
// Engine.Err and PING say so, too. The engine tries by itself, at least every 5 s. When the disk takes data again it builds
// the data anew from its files, without the refused call, and goes on behind the last record: a refused call has not happened.
// Connections stay; cursors of scans are as after opening.
//
// A sync that fails may have lost any part of what was written since the one before, and one that succeeds later does not
// tell. So that file is not written any more: the engine writes a snapshot of its data and begins a new log, and goes on once
// both are on disk. Under FsyncAlways, nothing that waited for the sync was told. Those connections end, by which a client knows
// that the outcome is unknown, and calls of FCall return an error that says so; once the engine goes on, they are kept.
//
// # What Open refuses
//
// A manifest names the log that has to be there, and how many records it has at least: since it was opened, closed, or begun. A
// directory with less, with a file that is damaged or missing, or with more bytes behind the last whole record than a crash
// leaves there, is refused with ErrCorrupt. Under FsyncAlways a crash leaves 1 MiB and one record at most. A shorter torn end
// was never acknowledged; it is dropped with a warning.
//
// # What it is not
//
// There is one database, one user, no cluster, no replication, no eviction, no WATCH and no EVAL. All data is kept in
// memory. A function that never returns is interrupted after Options.ScriptTimeout, unless it has written: then it can
// only be reported, as on a server.
//
// Approximate trims of streams (MAXLEN ~, MINID ~) remove whole nodes only and never go below the bound. Nodes are filled
// as by a server with default settings: up to 100 entries and 4096 bytes.
//
// # Lua
//
// The interpreter is written in Go. What scripts can see of it is made equal to the server's Lua where that is possible:
// conversions between numbers and text, JSON, error texts and positions, read-only globals, the empty world in which a
// library loads. These differences remain, and a library has to avoid them:
//
//   - numbers joined with ".." or used as strings: text of fractions and of numbers from 1e14 on differs; convert them
//     with string.format or tostring
//   - arithmetic on strings that are not plain decimal numbers ("010" + 1)
//   - the patterns %f and %u, and goto
//   - the wording of errors raised by the interpreter itself, such as indexing nil
//   - the order of pairs, which is that of insertion here
//   - after an error was caught by an inner pcall that itself ran within another failing pcall, closures may no longer
//     share locals with the functions around them
//   - cmsgpack, struct, redis.setresp(3), redis.set_repl and the settings of cjson are absent
package embedded

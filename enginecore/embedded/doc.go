// Package embedded runs the engine inside the program: the data store and the Lua functions that a Redis or Valkey
// server would otherwise provide. Use it for first steps, unit tests, command-line tools and programs that are a single
// binary. A client is connected through memory and sees no difference:
//
//	engine, err := embedded.Open(ctx, embedded.Options{Library: source, Dir: "data"})
//	client, err := rueidis.NewClient(engine.ClientOption())
//
// # Behaviour
//
// One gate admits one command, transaction or function call at a time, with a fixed clock for its duration, so
// functions are as atomic as on a server. Commands and replies follow Redis 7.0, in both protocol versions; numbers are
// turned into text as Valkey 8 does. Only the commands that the FlowFabric library and its clients use exist.
//
// SETRANGE and APPEND change a string in place, at a cost that does not depend on its length. Only the first of them
// after a command has read the whole string copies it, so read parts with GETRANGE.
//
// With a data directory, all changes of a call are one record of a log. Under FsyncAlways a reply is sent once
// everything it depends on is on disk; calls of several connections share a sync. A crash loses no answered call and
// leaves no partial one. The log is replaced by a snapshot when it has grown.
//
// # When the disk fails
//
// No client sees data that is not in the log. A call whose record cannot be written, for example on a full disk, is
// refused with an error that begins with MISCONF, and so is every other call that reads or writes data, until the log
// can be written again. Engine.Err and PING report it, too. The engine retries at least every 5 s. When the disk
// accepts data again, it rebuilds the data from its files, without the refused call, and continues after the last
// record: a refused call has no effect. Connections stay open; cursors of scans are as after opening.
//
// A failed sync may have lost any part of the data written since the previous one, and a later successful sync does not
// reveal it. So the engine no longer writes that file: it writes a snapshot of its data, begins a new log, and resumes
// once both are on disk. Under FsyncAlways, calls that waited for the sync are not answered: their connections are
// closed, so that the client treats the outcome as unknown. Once the engine resumes, these calls have taken effect.
//
// # Directories that Open refuses
//
// A manifest names the current log, and its minimum number of records, as of its last opening, closing or beginning. A
// directory with less, with a file that is damaged or missing, or with more bytes after the last whole record than a
// crash leaves there, is refused with ErrCorrupt. Under FsyncAlways a crash leaves 1 MiB and one record at most. A
// shorter torn end was never acknowledged; it is dropped with a warning.
//
// # Restrictions
//
// There is one database, one user, no cluster, no replication, no eviction, no WATCH and no EVAL. All data is kept in
// memory. A function that never returns is interrupted after Options.ScriptTimeout, unless it has written: then it can
// only be reported, as on a server. It is interrupted in loops, at commands and where functions call themselves by
// their names, not in a recursion through other variables.
//
// Approximate trims of streams (MAXLEN ~, MINID ~) remove whole nodes only and never go below the bound. Nodes are
// filled as by a server with default settings: up to 100 entries and 4096 bytes.
//
// # Lua
//
// The interpreter is written in Go. Its behaviour visible to scripts equals the server's Lua where possible:
// conversions between numbers and text, the libraries bit, cjson, cmsgpack and struct, error texts and positions,
// read-only globals, the empty world in which a library loads. These differences remain, and a library has to avoid
// them:
//
//   - numbers joined with ".." or used as strings: text of fractions and of numbers from 1e14 on differs; convert them
//     with string.format or tostring
//   - arithmetic on strings that are not plain decimal numbers ("010" + 1)
//   - the patterns %f and %u, and goto
//   - the wording of errors raised by the interpreter itself, such as indexing nil
//   - the order of pairs, which is the order of insertion here, and so the order of the entries of a map that
//     cmsgpack.pack writes
//   - a table with a whole number as a key takes memory for all smaller ones, up to 67,108,864
//   - the name of a library function in an error text, which is the name of its field here, also where the caller has
//     given it another one
//   - after an error was caught by an inner pcall that itself ran within another failing pcall, closures may no longer
//     share locals with the functions around them
//   - redis.setresp(3), redis.set_repl, os.clock and the settings of cjson are absent
//
// Import it to open an engine with own settings, or to test for ErrLocked and ErrCorrupt.
package embedded

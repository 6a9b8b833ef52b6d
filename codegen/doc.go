// Command codegen reads the contract headers above the functions in lua and generates everything that would otherwise
// be counted or repeated manually: the key builders on both sides, the unpacking of KEYS and ARGV and the registration
// in Lua, the typed calls and golden wire tests in internal/enginerpc, the encoders and decoders of messages and texts
// on both sides, and the error codes in enginecore and errorcode. It prints the function reference.
//
//	go run ./codegen                      write all generated files
//	go run ./codegen -check               write nothing; list files that differ and exit with 1
//	go run ./codegen -accept-wire-form    take a wire form that breaks programs; see below
//	go run ./codegen docs                 print the function reference: functions, records, keys, messages, texts
//	go run ./codegen library              print the assembled library
//	go run ./codegen library -contract    print it without the ffx_* functions
//
// # Header format
//
// A header is a block of Lua line comments that begins with @function and ends with the definition
// `function F.<name>(K, A)`. A line that begins with `--` and at least three spaces continues the tag
// above it. A word after the parts named below begins a free description.
//
//	-- @function ff_claim_execution
//	-- @summary  one sentence or more; required
//	-- @flags    readonly | repeatable | derives | fence | operator | intake | positional, any of them
//	-- @go       ClaimExecution                  name of the Go call, where the rule below does not do
//	-- @tag      execution_id                    what gives the hash tag, where the rule below does not do
//	-- @key      core   exec.core                a key: role, template, optional bindings and `optional`
//	-- @key      old    attempt.record(attempt_index=old_attempt_index)
//	-- @key      blocked lane.blocked_budget chosen_by=reason   the caller chooses the key: Keys.blockedBy in Go
//	-- @keys     dep    exec.dep(edge_id=edge_ids)      the rest of KEYS, one per element of edge_ids
//	-- @arg      lease_ttl_ms  ms optional       an argument: name, type, `optional` or `omittable`
//	-- @arg      delay_ms      ms optional=0     an optional argument that is sent as 0 where it is not set
//	-- @include  claim_request                   the fields of an @arguments set, in this place
//	-- @group    nodes  name:text payload:bytes  a count, then count times the fields
//	-- @columns  dims   name:text limit:text     a count, then all names, then all limits
//	-- @args     lanes  lane_id                  the rest of ARGV, one value each
//	-- @reply    OK lease_id:lease_id expires_at:unix_ms
//	-- @reply    bare RATE_EXCEEDED retry_after:ms      a reply without the leading integer
//	-- @reply    raw text                        a plain bulk string
//	-- @error    stale_lease message:text        a code with its details
//	-- @error    member_of_other:*               a code that carries a value behind a colon: detail `value`
//	-- @error    set:fenced                      the codes of an @errors set
//	-- @writes_on lease_expired core             a refusal that writes, and to which keys
//
// Tags outside function headers, in any file:
//
//	-- @template  exec.core          exec:{tag}:{execution_id}:core
//	-- @template  flow.core          flow:{tag}:{flow_id}:core parsed     Keys.ParseFlowCore takes such a key apart
//	-- @record    claimed_execution  execution_id:execution_id inputs:list(name:text result:bytes)
//	-- @arguments claim_request      lane_id:lane_id capabilities:csv optional
//	-- @errors    fenced             execution_not_active lease_expired stale_lease
//
// A module function that another file sets is a hook: the tag @hook is above its definition, which a library without
// that file uses.
//
//	-- @hook A flow has closed.
//	function graph.on_closed(c, flow_id) end
//
// A store is a set of modules with the same functions, from which each call takes the module that fits its data. The
// tag @store, in the file of the module that chooses, names the modules, @call declares a function with its parameters,
// and a function of the choosing module whose name begins with `of` returns one of the modules:
//
//	-- @store store_record store_row
//	-- @call  result(at, c, execution_id)  Its result, or false.
//
//	local s, at = store.of(core_key)
//	local text = s.result(at, c, execution_id)
//
// Field lists are `name:type` words; `optional` after one, or a `?` at its end, lets the zero value be
// sent as an empty text, and lets the end of a reply be missing. `?=value` at its end, or `optional=value` after
// an @arg, lets the zero value be sent as that value: libraries of the contract take an empty text for a text, or
// stop at it in the middle of their writes. A type is a scalar of the table in internal/header/types.go, or one of
//
//	list(name:type …)   a nested array whose elements are arrays; also list(record) and list(scalar)
//	rest(name:type …)   the remaining elements, flat; last field only; also rest(scalar)
//	group(name:type …)  a count, then that many flat groups; last field only
//	pairs               a nested array of names and values in turn
//
// The fields of an @group or @columns may also be the name of a record alone.
//
// # Messages and texts
//
// Every message on a channel, and every text inside an argument, a reply or a stored value that Lua and Go both touch,
// has a tag outside function headers too:
//
//	-- @message   work      channel.wake,channel.wake_ring work {partition} {mark}
//	-- @frame     many      channel.done many            several messages, each behind its length in bytes
//	-- @text      pause     {since:unix_ms} {reason}
//	-- @list      room      "{quota_policy_id} {permits:int}\n"      elements, one behind the other
//	-- @set       kind      {kind}                       a line feed, then each element with a line feed behind it
//	-- @digits    hint      none=0 listed=1 aside=+4     one digit for each element
//
// A text in double quotes is read as a Go string, which allows for line feeds, and blanks at the ends. The type of
// {name} is the type with the same name, else text; {name:type} has another: a scalar, or word (one of several words,
// or an id), partition (the number of a partition of flows) or any_partition (with q or b before the number of a
// partition of quotas or budgets). A value ends where the text after it begins and must not contain that text; the last
// value may be any text. {name?} at the end is left out with the text before it when it is empty. {name:'text'}, first
// or last, is a bool: the text in quotes, or nothing. Messages of one channel begin with different words.
//
// In Go, internal/enginerpc has a struct for each: WorkMessage with Text and ParseWorkMessage, PauseText, RoomText with
// AppendText, KindSet and InKindSet, constants for digits. Text returns an error if a value with free text could
// contain its terminator. In Lua, message.work(…) and encode.pause(…) give the text, decode.pause(text) the values,
// decode.room_list(text) an iterator, decode.has_kind(set, kind) whether the set has the element, and
// encode.pause_fault(…) the name of the first parameter whose value does not fit; generation writes the functions that
// the library calls. Readers ignore messages that they do not know, and any text after the last value of a message,
// unless that is free text.
//
// Not declared are texts of which one module is writer and reader, such as cursors, the gates of budgets, the requests
// of quotas, permit pools, the notices to child runs, fires of schedules and the values of events: no other module
// depends on them. Lists by commas are arguments of type csv. The numbers of frames are Go's on both sides, and the
// tuples of siblings and the message on channel.completions belong to the contract.
//
// # Rows
//
// A stored text of fixed width is declared once, column by column, outside function headers:
//
//	-- @row     node_row  The row of a node
//	-- @beside  run ordinal               further fields of the table that its reader makes, which the caller gives
//	-- @column  form   byte =1 form       a column: name, type, `=n` if it always has one value, what it holds
//	-- @column  phase  state how it runs  a number from 1 on that stands for one of its values
//	-- @values  phase  runnable active
//	-- @column  flags  flags what there is besides
//	-- @bit     flags  more it has further fields        bits from 1 on
//	-- @piece   held   phase..flags lease   what the library reads or writes by itself: columns in a row;
//	                                        those from one to another are one text
//
// Types are byte, state, flags (1 byte), short (2), long (4), time (6, Unix ms), all little endian, and text(n). In
// Lua, the module of the row's name has read(bytes, from, …), pack(r), BYTES, and in capitals the columns with values,
// the bits and the formats of pieces; <COLUMN>_AT is where a column begins, from 1 on, and <COLUMN>_FORMAT how it is
// packed. The tests' reader is internal/test/rowread/layout_gen.go. docs/reference/stored-form.md has a table of the
// bytes.
//
// # The generated registration
//
// K and A of a function hold its keys and arguments by name, as texts; a missing optional one is nil. A call with fewer
// KEYS or ARGV than its header needs is refused with invalid_input before the function runs; when a number is missing,
// the refusal names it. An omittable argument is one that a program always sends, but whose absence the function itself
// detects. Of a group, A.<name> is a list of tables and A.<name>_count the raw count; without a count that the
// arguments cover the list is nil. A function with the flag positional gets the lists KEYS and ARGV themselves, since
// making tables of many groups would take longer than its work.
//
// A function that adds new work or new data has the flag intake: a server whose memory is full (maxmemory) refuses it.
// Any other function that writes is registered with allow-oom, since calls that finish work or free memory have to work
// there; the data that one call of it adds must be bounded.
//
// # Checks
//
// In addition to the headers, the generator reads the whole library as Lua: unknown globals, globals that do not exist
// yet while the library loads, fields of module tables that no line defines or two define, locals that hide a module,
// more file-scope locals than the interpreter allows, and assignments such as `a, b = b, a`, which the embedded
// engine's interpreter does in order. Then its structure is checked: a module is one file of its name, files of the
// contract library use none below composite/, every hook is set in its place, stores have the functions that are
// declared and no other function of them is called, and files use each other in no circle that is not known. See
// lua/README.md. All faults are reported at once, each with file and line.
//
// # Build
//
// A build is <revision>-<hash>. The revision grows by one whenever generation finds the library changed since the
// last one, so builds have an order: a program replaces the server's library only by a later one.
//
// # The wire form
//
// Programs share a server with a library of a later build during a roll-out, so within a protocol functions only gain:
// optional or omittable arguments at the end, values at the end of composite replies, new functions, new messages, and
// optional parts at the end of messages whose last value is not free text. The common form is recorded in
// testdata/wire/protocol-<n>.txt, which generation updates after such additions. Any other change is refused with
// advice, and the recorded form stays; other files are still written. With -accept-wire-form the new form is recorded,
// for functions that no release has yet.
//
// A protocol that drops older programs has a new MinProtocol. Its composite functions are registered under other names,
// ffx3_claim in place of ffx_claim, since a call in the old form must not reach a function of the new one: for a
// program that is still running its functions are missing, which it reports as an incompatible library. ffx_version
// keeps its name in all protocols. The library registers the names of every protocol from MinProtocol on.
//
// # Names and tags in Go
//
// The prefix is dropped: ffx_claim becomes Conn.Claim, ff_claim_execution Conn.ClaimExecution. Where
// both families have a name, the ff_ call is prefixed: ffx_cancel_flow is CancelFlow, ff_cancel_flow is
// ContractCancelFlow. A suffix _ms disappears, because the Go type carries the unit.
//
// The hash tag of a call comes from its first execution id, for ff_ functions; otherwise from a field
// Partition, which the call then has. A call whose first key is of a template budget.*, quota.*, index.budget_*
// or index.quota_* wants a partition of that family, all others one of the flow family. A template parameter that is
// not an argument becomes a field of the call. An optional key whose parameters are empty is sent as the partition's
// noop key, since an empty key would hash to another slot; the Lua side sees "".
package main

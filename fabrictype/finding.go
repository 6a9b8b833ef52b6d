package fabrictype

import "fmt"

// Finding is one thing that Engine.Inspect has found.
//
// Codes are stable, and new ones may come:
//   - "server" (info) is kind, version and age of a server.
//   - "version.old" (error): the server is older than those that are supported.
//   - "server.replica" (error): the server is a replica, which takes no writes.
//   - "server.loading" (error): the server still loads its data.
//   - "log.not_rewritten" (info): the server has not rewritten its log since it started. If it was killed before, half
//     of a call may be in there.
//   - "persistence.off" (warning, or info with AllowVolatile): nothing, or only snapshots, is written to disk.
//   - "persistence.fsync" (warning for never, info for everysec): an acknowledged write is not on disk at once.
//   - "eviction.on" (error): the server drops keys when its memory is full.
//   - "memory.full" (error): the memory limit is reached, and writes are refused.
//   - "memory.low" (warning): less than a tenth of the memory limit is left.
//   - "write.refused" (error): the server could not write to disk, and refuses writes for that.
//   - "write.failed" (warning): a snapshot or a rewrite of the log failed.
//   - "replicas.unguarded" (info): the server takes writes also when all of its replicas are gone.
//   - "replicas.missing" (warning): the primary has fewer replicas than runtime.Replication asks for, so calls fail
//     with enginecore.ErrNotReplicated.
//   - "rights.missing" (error): the user may not run commands that the library needs, or not on the keys and channels
//     of the prefix.
//   - "look.refused" (info): the user may not read something.
//   - "look.failed" (error): a server did not answer.
//   - "library.build" (info): the server has another build of the function library than this program.
//   - "keepers" (info) counts the programs with keepers that are subscribed to their channel.
//   - "keeper.none" (warning): no keeper is subscribed to its channel.
//   - "keeper.lag" (warning): a task of keepers has been due for a while.
//   - "workers" (info) counts the programs whose workers are subscribed to a lane.
//   - "worker.none" (error): work waits on a lane, and no worker takes it: LaneHealth has the state "unserved".
//   - "worker.types" (warning): live workers on a lane have different types for the input or the result of an activity.
//   - "lane.paused" (warning, or info when nothing waits): a lane is paused.
//   - "lane.blocked" (warning): work of a lane waits for a budget that is used up, or for the end of a pause of a run
//     or an activity.
//   - "engine.in_memory" (info): the engine is in this process and kept nowhere else.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Subject is the address of a server, a lane, "keepers" or "embedded".
	Subject string `json:"subject"`
	// Found describes the finding, with its values.
	Found string `json:"found"`
	// Remedy is a command or a setting that helps. Empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// String is "code: subject: found (remedy)".
func (f Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Code, f.Subject, f.Found)
	if f.Remedy != "" {
		text += " (" + f.Remedy + ")"
	}
	return text
}

// Inspection is the report of Engine.Inspect: findings about the servers, the user's rights, the function library,
// keepers and workers of an engine, the worst first.
type Inspection struct {
	// Worst is the worst severity of the findings; SeverityInfo when nothing was found.
	Worst    Severity  `json:"worst"`
	Findings []Finding `json:"findings"`
}

// AtLeast returns the findings of a severity or a worse one.
func (i Inspection) AtLeast(s Severity) []Finding {
	var list []Finding
	for _, f := range i.Findings {
		if f.Severity >= s {
			list = append(list, f)
		}
	}
	return list
}

package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
)

// judge adds the findings about one server.
func judge(i *findings, subject string, f serverFacts, volatile bool, replicas int) {
	if f.err != nil {
		i.add(findingcode.LookFailed, fabrictype.SeverityError, subject,
			f.err.Error(), "see that the server runs and can be reached")
		return
	}
	if len(f.forbidden) > 0 {
		i.add(findingcode.NotAllowed, fabrictype.SeverityInfo, subject,
			"the user may not call "+strings.Join(f.forbidden, " and "),
			"look as an operator: CONFIG GET shows passwords, so applications go without")
	}
	if len(f.info) == 0 {
		return
	}
	judgeVersion(i, subject, f)
	judgeMemory(i, subject, f)
	judgePersistence(i, subject, f, volatile)
	judgeReplication(i, subject, f, replicas)
}

// Versions from which on servers are supported.
var oldestVersions = map[string][2]int{"Redis": {7, 0}, "Valkey": {7, 2}}

func judgeVersion(i *findings, subject string, f serverFacts) {
	kind, version := "Redis", f.info["redis_version"]
	if own := f.info["valkey_version"]; own != "" {
		kind, version = "Valkey", own
	}
	age := time.Duration(f.number("uptime_in_seconds")) * time.Second
	i.add(
		findingcode.Server, fabrictype.SeverityInfo, subject, fmt.Sprintf("%s %s, running for %s", kind, version, age),
		"",
	)
	var major, minor int
	oldest := oldestVersions[kind]
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 &&
		(major < oldest[0] || major == oldest[0] && minor < oldest[1]) {
		i.add(findingcode.VersionOld, fabrictype.SeverityError, subject,
			kind+" "+version, fmt.Sprintf("run %s %d.%d or later", kind, oldest[0], oldest[1]))
	}
}

func judgeMemory(i *findings, subject string, f serverFacts) {
	limit := f.number("maxmemory")
	if limit <= 0 {
		return
	}
	used := f.number("used_memory") - f.number("mem_not_counted_for_evict")
	room := fmt.Sprintf("%s of %s are used", bytesText(used), bytesText(limit))
	if policy := f.info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		i.add(findingcode.Eviction, fabrictype.SeverityError, subject,
			fmt.Sprintf("maxmemory-policy %s with maxmemory %s: an evicted key is lost work", policy, bytesText(limit)),
			"CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration")
		return
	}
	const remedy = "CONFIG SET maxmemory <more>, or keep runs for a shorter time"
	switch {
	case used >= limit:
		i.add(findingcode.MemoryFull, fabrictype.SeverityError, subject, room+": writes are refused", remedy)
	case used >= limit-limit/10:
		i.add(findingcode.MemoryLow, fabrictype.SeverityWarning, subject, room, remedy)
	}
}

// bytesText shows a number of bytes.
func bytesText(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return strconv.FormatInt(n, 10) + " B"
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
}

func judgePersistence(i *findings, subject string, f serverFacts, volatile bool) {
	if f.info["loading"] == "1" {
		i.add(findingcode.Loading, fabrictype.SeverityError, subject, "the server loads its data", "wait")
	}
	log, known := f.info["aof_enabled"]
	switch {
	case !known:
	case log == "0" && f.info["flowfabric_embedded"] == "1":
		i.add(findingcode.InMemory, fabrictype.SeverityInfo, subject,
			"the engine is in the memory of another process: nothing outlives that process",
			"flowfabric dev --data DIR keeps it, or run a server")
	case log == "0":
		severity, found := fabrictype.SeverityWarning, "appendonly no: what was acknowledged is lost with the server"
		if save := f.settings["save"]; save != "" {
			found = "appendonly no, only snapshots (save " + save + "): what came after the last one is lost with the server"
		}
		if volatile {
			severity = fabrictype.SeverityInfo
		}
		i.add(findingcode.PersistenceOff, severity, subject, found,
			"CONFIG SET appendonly yes, and the same in the server's configuration; or OpenConfig.AllowVolatile")
	default:
		judgeFsync(i, subject, f, "CONFIG SET appendfsync everysec, or always")
		if f.info["aof_last_write_status"] == "err" {
			i.add(findingcode.WriteRefused, fabrictype.SeverityError, subject,
				"the last write to the log failed: writes are refused", "make room on the server's disk, see its log")
		}
		if f.info["aof_last_bgrewrite_status"] == "err" {
			i.add(findingcode.WriteFailed, fabrictype.SeverityWarning, subject,
				"the last rewrite of the log failed", "make room on the server's disk, then BGREWRITEAOF")
		}
		if f.info["aof_rewrites"] == "0" {
			i.add(findingcode.LogNotRewritten, fabrictype.SeverityInfo, subject,
				"the log has not been rewritten since the server started",
				"if the server was killed before that: BGREWRITEAOF, which leaves out the half of a call that the kill may have left")
		}
	}
	if f.info["rdb_last_bgsave_status"] == "err" {
		if f.settings["save"] != "" && f.settings["stop-writes-on-bgsave-error"] == "yes" {
			i.add(findingcode.WriteRefused, fabrictype.SeverityError, subject,
				"the last snapshot failed: writes are refused", "make room on the server's disk, then BGSAVE")
		} else {
			i.add(findingcode.WriteFailed, fabrictype.SeverityWarning, subject,
				"the last snapshot failed", "make room on the server's disk, then BGSAVE")
		}
	}
}

func judgeFsync(i *findings, subject string, f serverFacts, remedy string) {
	switch f.settings["appendfsync"] {
	case "no":
		i.add(findingcode.Fsync, fabrictype.SeverityWarning, subject,
			"appendfsync no: a power cut costs what the operating system has not written yet", remedy)
	case "everysec":
		i.add(findingcode.Fsync, fabrictype.SeverityInfo, subject,
			"appendfsync everysec: a power cut can cost the last second", "")
	}
}

// judgeReplication: wanted is how many replicas calls wait for.
func judgeReplication(i *findings, subject string, f serverFacts, wanted int) {
	if f.info["role"] == "slave" {
		i.add(findingcode.Replica, fabrictype.SeverityError, subject,
			"it is a replica, which takes no writes", "name its primary, or sentinels: valkey+sentinel://…")
		return
	}
	if online := f.replicasOnline(); online < wanted {
		i.add(findingcode.ReplicasMissing, fabrictype.SeverityWarning, subject,
			fmt.Sprintf("%d replicas are online, OpenConfig.Replication asks for %d: calls are carried out and fail",
				online, wanted), "add replicas, or ask for fewer")
	}
	if f.number("connected_slaves") > 0 && f.settings["min-replicas-to-write"] == "0" {
		i.add(findingcode.ReplicasUnguarded, fabrictype.SeverityInfo, subject,
			"min-replicas-to-write 0: work is also taken in while no replica has it",
			"CONFIG SET min-replicas-to-write 1")
	}
}

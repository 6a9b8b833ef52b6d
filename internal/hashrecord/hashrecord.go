// Package hashrecord reads fields of the hashes in which the engine stores its records.
package hashrecord

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Record holds fields of one stored hash by name. A field that the hash lacks reads as "". A hash that has none of the
// requested fields, which is how a missing record looks, is a nil Record.
type Record map[string]string

// Read decodes the reply of an HMGET of fields. It returns nil for a reply that is an error.
func Read(result rueidis.RedisResult, fields []string) Record {
	values, err := result.ToArray()
	if err != nil {
		return nil
	}
	var r Record
	for i := range min(len(values), len(fields)) {
		if text, err := values[i].ToString(); err == nil {
			if r == nil {
				r = make(Record, len(fields))
			}
			r[fields[i]] = text
		}
	}
	return r
}

// Exists reports whether the hash has any of the requested fields.
func (r Record) Exists() bool { return len(r) > 0 }

// Int returns a numeric field without its fraction; 0 when it is missing or not a number.
func (r Record) Int(field string) int64 { return Int(r[field]) }

// Time returns a field that holds Unix milliseconds; zero when it is missing or not positive.
func (r Record) Time(field string) time.Time { return Time(r[field]) }

// Int parses a number as the engine stores it, without its fraction; 0 when the text is not a number.
func Int(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(text, 64)
		return int64(f)
	}
	return n
}

// Time parses Unix milliseconds as they are stored; zero when the text is not a positive number.
func Time(text string) time.Time {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// The following read fields of the record of an execution.

// Lane returns the lane, which is "default" when the record names none. It needs lane_id.
func (r Record) Lane() enginecore.LaneID {
	if lane := r["lane_id"]; lane != "" {
		return enginecore.LaneID(lane)
	}
	return "default"
}

// IsTerminal reports whether the execution or flow has ended. It needs lifecycle_phase.
func (r Record) IsTerminal() bool { return r["lifecycle_phase"] == "terminal" }

// IsReclaimable reports whether a worker lost the lease and another may reclaim the execution. It needs lifecycle_phase
// and ownership_state.
func (r Record) IsReclaimable() bool {
	owner := r["ownership_state"]
	return r["lifecycle_phase"] == "active" && (owner == "lease_expired_reclaimable" || owner == "lease_revoked")
}

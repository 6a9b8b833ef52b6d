package invariant

import (
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// listedRun is an entry of a list of runs.
type listedRun struct {
	at int64
	id string
}

// listedName is how an entry of the list of all runs has the id of a run: its first 40 bytes, or a byte 0 and the bytes
// of a UUID in lower case.
func listedName(runID string) string {
	if id, err := uuid.Parse(runID); err == nil && id.String() == runID {
		return "\x00" + string(id[:])
	}
	return runID[:min(len(runID), 40)]
}

// runList returns the entries of a list of runs, each with the beginning of the id that programs know the run by, and
// checks that its times grow.
func (c *checker) runList(key string, entries []string) map[listedRun]string {
	list := make(map[listedRun]string, len(entries))
	last := int64(0)
	for _, entry := range entries {
		at, id, name, ok := rowread.ReadListEntry(entry)
		if !ok {
			c.fault(RuleFlow, key, "holds %q, which is not an entry", entry)
			continue
		}
		if at <= last {
			c.fault(RuleFlow, key, "holds %s at %d, after %d", id, at, last)
		}
		last = at
		list[listedRun{at, string(id)}] = name
	}
	return list
}

// tagSets are the keys of the sets by tag, by word of the failure, and by outcome that a run must be in, each with its
// score there.
func (p *partition) tagSets(f *flowRecord) map[string]string {
	want := make(map[string]string)
	if f == nil || !f.managed() || f.purging() {
		return want
	}
	for name, value := range f.parts["tags"].hash {
		want[p.key("ffx:"+p.tag+":tagged_runs:"+partEscaper.Replace(name)+":"+value)] = f.core["created_at"]
	}
	for word := range strings.SplitSeq(f.core["failure_words"], ",") {
		if word != "" {
			want[p.key("ffx:"+p.tag+":"+wordSets+word)] = f.core["created_at"]
		}
	}
	if outcome := f.core["outcome"]; f.run != nil && outcome != "" && outcome != "success" {
		want[p.key("ffx:"+p.tag+":tagged_runs:outcome:"+outcome)] = strconv.FormatInt(f.run.listed, 10)
	}
	return want
}

// wordSets begins the keys of the sets of runs by a word of their failure, each of which keeps the newest fullSet runs.
const (
	wordSets = "tagged_runs:failure:"
	fullSet  = 1000
)

// runs checks that the lists of runs hold every submitted run, at the time in its header, and that each flow's list
// holds no runs of others. Entries of runs that are gone are holes.
func (c *checker) runs(p *partition) {
	allKey := p.key("ffx:" + p.tag + ":all_runs")
	lists := map[string]map[listedRun]string{allKey: c.runList(allKey, p.indexes["all_runs"].list)}
	for name, v := range p.runs {
		key := p.key("ffx:" + p.tag + ":runs:" + name)
		lists[key] = c.runList(key, v.list)
		for entry := range lists[key] {
			if f := p.flows[entry.id]; f != nil && f.run != nil && f.core != nil && f.run.listed == entry.at && f.core["flow_kind"] != name {
				c.fault(RuleFlow, key, "holds %s, which does not belong there", entry.id)
			}
		}
	}
	for _, f := range p.flows {
		if !f.managed() || f.run == nil {
			continue
		}
		for _, key := range []string{allKey, p.key("ffx:" + p.tag + ":runs:" + f.core["flow_kind"])} {
			wanted := ""
			if key == allKey {
				wanted = listedName(f.core["run_id"])
			}
			name, isListed := lists[key][listedRun{f.run.listed, f.id}]
			if !isListed {
				c.fault(RuleFlow, f.key, "is not in the list of runs %s at %d", key, f.run.listed)
			} else if name != wanted {
				c.fault(RuleFlow, f.key, "is in the list of runs %s as %q, must be %q", key, name, wanted)
			}
		}
		if created := int64(number(f.core["created_at"])); f.run.listed < 1000*created {
			c.fault(RuleFlow, f.key, "was created at %d, and listed before, at %d µs", created, f.run.listed)
		}
	}
	c.taggedRuns(p)
}

// taggedRuns checks that the sets of runs by tag, word and outcome hold every submitted run that belongs there, by its
// time, and nothing else.
func (c *checker) taggedRuns(p *partition) {
	sets := make(map[string]map[string]float64)
	for tag, v := range p.tagged {
		sets[p.key("ffx:"+p.tag+":tagged_runs:"+tag)] = v.scores
	}
	for _, f := range p.flows {
		for key, want := range p.tagSets(f) {
			isFull := strings.Contains(key, wordSets) && len(sets[key]) >= fullSet
			if score, listed := sets[key][f.id]; !listed && isFull {
				continue
			} else if !listed {
				c.fault(RuleFlow, f.key, "is not in the set of runs %s", key)
			} else if got := strconv.FormatFloat(score, 'f', -1, 64); got != want {
				c.fault(RuleFlow, f.key, "must be in %s at %s, but is at %s", key, want, got)
			}
		}
	}
	for key, scores := range sets {
		for id := range scores {
			if f := p.flows[id]; f == nil || f.core == nil {
				c.fault(RuleUnknownFlow, key, "holds %s, which does not exist", id)
			} else if _, belongs := p.tagSets(f)[key]; !belongs {
				c.fault(RuleFlow, key, "holds %s, which does not belong there", id)
			}
		}
	}
}

// bulkJobs checks that each bulk job is in both indexes of its partition: a keeper finds a running job in the one, and
// removes the record of an ended job by the other.
func (c *checker) bulkJobs(p *partition) {
	all, due := p.index("bulk_jobs"), p.indexes["bulk_jobs_due"].scores
	for id := range due {
		if !all[id] {
			c.fault(RuleBulkJobs, p.key("ffx:"+p.tag+":bulk_jobs_due"), "holds %s, which is not a bulk job", id)
		}
	}
	for id := range all {
		if p.bulkJobs[id] == nil {
			c.fault(RuleBulkJobs, p.key("ffx:"+p.tag+":bulk_jobs"), "holds %s, which has no record", id)
		}
	}
	for id, job := range p.bulkJobs {
		at := p.key("ffx:" + p.tag + ":bulk_job:" + id)
		if _, looked := due[id]; !all[id] || !looked {
			c.fault(RuleBulkJobs, at, "is not in the indexes: listed %t, due %t", all[id], looked)
		}
		if open := job["state"] == "running"; open != (job["closed_at"] == "") {
			c.fault(RuleBulkJobs, at, "is %s, closed at %q", job["state"], job["closed_at"])
		}
	}
}

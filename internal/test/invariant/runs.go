package invariant

import "strconv"

// runLists are the lists in which the runs of a partition are searched, by key.
func (p *partition) runLists() map[string]map[string]float64 {
	lists := map[string]map[string]float64{p.key("ffx:" + p.tag + ":all_runs"): p.indexes["all_runs"].scores}
	for name, v := range p.runs {
		lists[p.key("ffx:"+p.tag+":runs:"+name)] = v.scores
	}
	for tag, v := range p.tagged {
		lists[p.key("ffx:"+p.tag+":tagged_runs:"+tag)] = v.scores
	}
	return lists
}

// listedIn are the keys of the lists that a run must be in.
func (p *partition) listedIn(f *flowRecord) map[string]bool {
	want := make(map[string]bool)
	if f == nil || !f.managed() || f.purging() {
		return want
	}
	want[p.key("ffx:"+p.tag+":all_runs")] = true
	want[p.key("ffx:"+p.tag+":runs:"+f.core["flow_kind"])] = true
	for name, value := range f.parts["tags"].hash {
		want[p.key("ffx:"+p.tag+":tagged_runs:"+partEscaper.Replace(name)+":"+value)] = true
	}
	return want
}

// runs checks that the lists of runs hold every submitted run, by the time of its creation, and nothing else.
func (c *checker) runs(p *partition) {
	lists := p.runLists()
	for _, f := range p.flows {
		for key := range p.listedIn(f) {
			if score, listed := lists[key][f.id]; !listed {
				c.fault(RuleFlow, f.key, "is not in the list of runs %s", key)
			} else if got := strconv.FormatFloat(score, 'f', -1, 64); got != f.core["created_at"] {
				c.fault(RuleFlow, f.key, "was created at %s, but is listed in %s at %s", f.core["created_at"], key, got)
			}
		}
	}
	for key, scores := range lists {
		for id := range scores {
			if f := p.flows[id]; f == nil || f.core == nil {
				c.fault(RuleUnknownFlow, key, "holds %s, which does not exist", id)
			} else if !p.listedIn(f)[key] {
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

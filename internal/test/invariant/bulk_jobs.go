package invariant

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

package invariant

import (
	"strconv"
	"strings"
)

// runKey is the data that runs of a flow with one key share.
type runKey struct {
	open, queue value
}

// runKeyTypes are the types of the parts of a key.
var runKeyTypes = map[string]string{
	"open": "zset", "queue": "zset", "first": "string", "starts": "list", "pending": "hash", "calls": "set",
}

func (p *partition) sortRunKey(text string, v value) string {
	id, part, _ := strings.Cut(text, ":")
	want, known := runKeyTypes[part]
	if len(id) != 36 || !known {
		return unknownKey
	}
	k := p.runKeys[id]
	if k == nil {
		k = &runKey{}
		p.runKeys[id] = k
	}
	switch part {
	case "open":
		k.open = v
	case "queue":
		k.queue = v
	}
	return wrongType(v, want)
}

// checkRunKeys checks that the open runs of a key have its places or wait in its queue, that no others do, that none waits while
// there is a place, and that a keeper checks a queue.
func (c *checker) checkRunKeys(p *partition) {
	due := p.indexes["run_keys_due"].scores
	for id, k := range p.runKeys {
		at := p.key("ffx:" + p.tag + ":run_key:" + id)
		for _, list := range []struct {
			name   string
			v      value
			queued bool
		}{{"open", k.open, false}, {"queue", k.queue, true}} {
			for flow, score := range list.v.scores {
				f := p.flows[flow]
				if f == nil || f.core["closed_at"] != "" || f.core["run_key_id"] != id || (f.core["queued"] != "") != list.queued {
					c.fault(RuleRunKeys, at+":"+list.name, "holds %s, which is not a run of this key", flow)
				} else if list.queued && f.core["queued"] != strconv.FormatFloat(score, 'f', -1, 64) {
					c.fault(RuleRunKeys, at+":"+list.name, "holds %s at %.0f, its record has %s", flow, score, f.core["queued"])
				}
			}
		}
		if len(k.queue.scores) > 0 && len(k.open.scores) == 0 {
			c.fault(RuleRunKeys, at+":queue", "waits for no run")
		}
		if _, looked := due[id]; len(k.queue.scores) > 0 && !looked {
			c.fault(RuleRunKeys, at+":queue", "is checked by no keeper")
		}
	}
	for id, f := range p.flows {
		key := f.core["run_key_id"]
		if key == "" || f.core["closed_at"] != "" || f.core["purging"] != "" {
			continue
		}
		list := "open"
		if f.core["queued"] != "" {
			list = "queue"
		}
		k := p.runKeys[key]
		if k == nil {
			k = &runKey{}
		}
		scores := k.open.scores
		if list == "queue" {
			scores = k.queue.scores
		}
		if _, listed := scores[id]; !listed {
			c.fault(RuleRunKeys, f.key, "is not in the %s list of its key %s", list, key)
		}
	}
}

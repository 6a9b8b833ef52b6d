package invariant

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// schedule is everything that belongs to one schedule in a partition. Of its fires, other partitions remember something
// too.
type schedule struct {
	key     string
	record  map[string]string // nil when only its companions exist
	plans   []string
	history value
}

// scheduleHistory is the number of entries that are kept.
const scheduleHistory = 50

func (p *partition) sortSchedule(text string, v value) string {
	id, part, _ := strings.Cut(text, ":")
	if len(id) != 36 {
		return unknownKey
	}
	if part == "fired" {
		return wrongType(v, "string")
	}
	s := p.schedules[id]
	if s == nil {
		s = &schedule{key: p.key("ffx:" + p.tag + ":schedule:" + id)}
		p.schedules[id] = s
	}
	kind, plan, _ := strings.Cut(part, ":")
	switch kind {
	case "":
		s.record = v.hash
		return wrongType(v, "hash")
	case "plan":
		s.plans = append(s.plans, plan)
		return wrongType(v, "hash")
	case "history":
		s.history = v
		return wrongType(v, "list")
	}
	return unknownKey
}

// scheduleState has the checked fields of a stored state.
type scheduleState struct {
	Plan     int   `json:"plan"`
	Plans    []int `json:"plans"`
	Due      int64 `json:"due"`
	PausedAt int64 `json:"paused_at"`
	Serial   int64 `json:"serial"`
	Deleting bool  `json:"deleting"`
	Waiting  []struct {
		Serial int64 `json:"serial"`
		Plan   int   `json:"plan"`
	} `json:"waiting"`
}

// schedules checks records, indexes and stored plans.
func (c *checker) schedules(p *partition) {
	all, due := p.index("schedules"), p.indexes["schedules_due"].scores
	for id := range due {
		if !all[id] {
			c.fault(RuleSchedules, p.key("ffx:"+p.tag+":schedules_due"), "holds %s, which is not a schedule", id)
		}
	}
	for id := range all {
		if p.schedules[id] == nil || p.schedules[id].record == nil {
			c.fault(RuleSchedules, p.key("ffx:"+p.tag+":schedules"), "holds %s, which has no record", id)
		}
	}
	for id, s := range p.schedules {
		if s.record == nil || !all[id] {
			c.fault(RuleSchedules, s.key, "is not among the schedules: record %t, plans %v", s.record != nil, s.plans)
			continue
		}
		_, looked := due[id]
		c.schedule(s, looked)
	}
}

func (c *checker) schedule(s *schedule, looked bool) {
	var state scheduleState
	if err := json.Unmarshal([]byte(s.record["state"]), &state); err != nil {
		c.fault(RuleSchedules, s.key, "its state is not to be read: %v", err)
		return
	}
	want := make([]string, len(state.Plans))
	for i, plan := range state.Plans {
		want[i] = strconv.Itoa(plan)
	}
	slices.Sort(want)
	slices.Sort(s.plans)
	if !slices.Equal(want, s.plans) || !slices.Contains(state.Plans, state.Plan) {
		c.fault(RuleSchedules, s.key, "starts plan %d of %v, stored are %v", state.Plan, want, s.plans)
	}
	last := int64(0)
	for _, fire := range state.Waiting {
		if fire.Serial <= last || fire.Serial > state.Serial {
			c.fault(RuleSchedules, s.key, "fire %d waits after %d, of %d", fire.Serial, last, state.Serial)
		}
		last = fire.Serial
		if fire.Plan != 0 && !slices.Contains(state.Plans, fire.Plan) {
			c.fault(RuleSchedules, s.key, "fire %d starts plan %d, stored are %v", fire.Serial, fire.Plan, s.plans)
		}
	}
	if needed := state.PausedAt == 0 && (state.Due != 0 || len(state.Waiting) > 0) || state.Deleting; needed && !looked {
		c.fault(RuleSchedules, s.key, "no keeper will process it: due %d, %d fires wait", state.Due, len(state.Waiting))
	}
	if n := len(s.history.list); n > scheduleHistory {
		c.fault(RuleSchedules, s.key, "its history has %d entries", n)
	}
}

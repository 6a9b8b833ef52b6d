package invariant

import "strings"

// homeTag is the tag of the partition that keeps the order of lanes where one server has all partitions.
const homeTag = "{fp:0}"

// sharesLanes reports whether the partitions share the order of their lanes.
func sharesLanes(values map[string]value) bool {
	for key := range values {
		if strings.HasSuffix(key, ":partitions") && strings.Contains(key, ":ffx:"+homeTag+":lane:") {
			return true
		}
	}
	return false
}

// settlesWith is the tag under which a key is read. If partitions share their lanes, a partition's keys agree with the
// lanes only if both were read at the same time.
func settlesWith(key string, together bool) string {
	tag := tagOf(key)
	if together && strings.HasPrefix(tag, "{fp:") {
		return homeTag
	}
	return tag
}

// spreadLanes gives each partition its part of the sets that the partitions of a server share, so that the rules need not know of
// them.
func (s *Snapshot) spreadLanes() {
	home := s.partitions[homeTag]
	if home == nil || !home.sharesLanes {
		return
	}
	lanes, reclaimable, queues, turns := home.lanes, home.reclaimable, home.queues, home.turns
	home.lanes, home.reclaimable, home.queues, home.turns = nil, nil, nil, nil
	for _, l := range lanes {
		if l.name != "eligible" {
			home.lanes = append(home.lanes, l)
			continue
		}
		mark, marked := l.scores[pauseMark]
		parts := s.spread(l.scores)
		if marked {
			for _, p := range s.partitions {
				if parts[p] == nil && p.index("lanes")[l.lane] {
					parts[p] = make(map[string]float64)
				}
				if parts[p] != nil {
					parts[p][pauseMark] = mark
				}
			}
		}
		for p, scores := range parts {
			p.lanes = append(p.lanes, laneIndex{l.key, l.lane, l.name, scores})
		}
	}
	for _, l := range reclaimable {
		for p, scores := range s.spread(l.scores) {
			p.reclaimable = append(p.reclaimable, laneIndex{l.key, l.lane, l.name, scores})
		}
	}
	waits := make(map[string]*partition) // of a key in a lane, one of the partitions where something waits
	for _, q := range queues {
		for p, scores := range s.spread(q.scores) {
			p.queues = append(p.queues, queue{q.key, q.lane, q.fairKey, scores})
			s.lineUp(p, q, turns)
			waits[q.lane+"\n"+q.fairKey] = p
		}
	}
	for _, t := range turns {
		idle := make(map[string]float64)
		for fairKey, place := range t.scores {
			if waits[t.lane+"\n"+fairKey] == nil {
				idle[fairKey] = place
			}
		}
		if len(idle) > 0 {
			home.turns = append(home.turns, laneIndex{t.key, t.lane, t.name, idle})
		}
	}
	for _, p := range s.partitions {
		if v, found := home.indexes["pauses"]; found && strings.HasPrefix(p.tag, "{fp:") {
			p.indexes["pauses"] = v
		}
	}
}

// spread splits the members of a set by the partitions of the executions. Members without a partition stay in the home
// partition.
func (s *Snapshot) spread(scores map[string]float64) map[*partition]map[string]float64 {
	parts := make(map[*partition]map[string]float64)
	for id, score := range scores {
		if id == pauseMark {
			continue
		}
		tag := homeTag
		if of := tagOf(id); strings.HasPrefix(of, "{fp:") {
			tag = of
		}
		p := s.partition(tag)
		if parts[p] == nil {
			parts[p] = make(map[string]float64)
		}
		parts[p][id] = score
	}
	return parts
}

// lineUp adds the key of a queue to a partition's turns, if the key is in line.
func (s *Snapshot) lineUp(p *partition, q queue, turns []laneIndex) {
	for _, t := range turns {
		if place, found := t.scores[q.fairKey]; found && t.lane == q.lane {
			p.turns = append(p.turns, laneIndex{t.key, t.lane, t.name, map[string]float64{q.fairKey: place}})
		}
	}
}

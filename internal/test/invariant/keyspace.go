package invariant

import (
	"sort"
	"strings"
)

// partition has the records of one hash tag, by their owner.
type partition struct {
	tag         string
	executions  map[string]*execution
	flows       map[string]*flowRecord
	lanes       []laneIndex
	indexes     map[string]value // by name: lease_expiry, all_executions, …
	workers     map[string]value // instance → executions that it holds
	reclaimable []laneIndex
	turns       []laneIndex // the keys that wait in a lane
	queues      []queue
	sharesLanes bool             // other partitions have their eligible executions in the sets of this one
	unresolved  map[string]value // upstream → edges that wait in the backlog
	runs        map[string]value // flow name → flow ids
	tagged      map[string]value // tag name, ":", tag value → flow ids
	waitpoints  map[string]*waitpoint
	schedules   map[string]*schedule
	bulkJobs    map[string]map[string]string
	runKeys     map[string]*runKey
	// budgets are the records of a partition of budgets; budgetWaiting are the executions that wait for a budget, by
	// its id.
	budgets       map[string]*budgetRecord
	budgetWaiting map[string]value
	graphs        map[string]*graph            // by the hash of their form
	graphRows     map[string]value             // those that runs are copies of, by the same
	classes       map[string]map[string]string // of runs, by their ids
	backlogSet    set                          // see inBacklog
	key           func(rest string) string
}

// execution is everything that belongs to one execution.
type execution struct {
	id       string
	key      string // of the core
	core     map[string]string
	row      *row             // of a node of a run, whose core is made of it; nil for others
	edges    []rowEdge        // of the graph, that lead to the node
	parts    map[string]value // payload, result, attempts, deps:meta, …
	deps     map[string]map[string]string
	attempts map[string]*attempt
}

type attempt struct {
	key    string
	record map[string]string // nil when only its companions exist
	parts  map[string]bool   // usage, policy, stream, stream meta
}

// flowRecord is everything that belongs to one flow.
type flowRecord struct {
	id    string
	tag   string
	key   string // of the core
	core  map[string]string
	parts map[string]value // members, events, nodes, …
	run   *runHead         // of a run with rows
	joins map[string]value // join → the states of its edges
	// results are those with their own keys, by ordinal.
	results map[string]value
	// moreFields are the fields without columns; nil until first read.
	moreFields map[int]map[string]string
	allMembers set
	edges      map[string]map[string]string
	out        map[string]value
	in         map[string]value
	// groups are the edge groups by downstream, siblings the edges that were still open when a group fired.
	groups   map[string]map[string]string
	siblings map[string]value
}

// queue has the executions that wait in a lane under one fairness key.
type queue struct {
	key, lane, fairKey string
	scores             map[string]float64
}

// laneIndex is one sorted set of a lane.
type laneIndex struct {
	key, lane, name string
	scores          map[string]float64
}

func (e *execution) waitpoint() bool       { return e.core["wait"] != "" }
func (e *execution) managed() bool         { return e.core["managed"] != "" }
func (e *execution) terminal() bool        { return e.core["lifecycle_phase"] == "terminal" }
func (e *execution) get(f string) string   { return e.core[f] }
func (f *flowRecord) managed() bool        { return f.core["managed"] != "" }
func (f *flowRecord) closed() bool         { return f.core["closed_at"] != "" }
func (f *flowRecord) rerunning() bool      { return f.core["rerun_state"] != "" }
func (f *flowRecord) purging() bool        { return f.core["purging"] != "" }
func (f *flowRecord) open() bool           { return f.core["public_flow_state"] == "open" }
func (p *partition) index(name string) set { return members(p.indexes[name]) }

type set = map[string]bool

// members are the members in the flow's set, and the nodes of its graph.
func (f *flowRecord) members() set {
	if f.run == nil {
		return f.parts["members"].set
	}
	if f.allMembers == nil {
		f.allMembers = make(set, f.run.count)
		for id := range f.parts["members"].set {
			f.allMembers[id] = true
		}
		for i := range f.run.rows {
			f.allMembers[nodeID(f.tag, f.id, i+1)] = true
		}
	}
	return f.allMembers
}

// members returns the members of a set or sorted set.
func members(v value) set {
	if v.scores == nil {
		return v.set
	}
	out := make(set, len(v.scores))
	for m := range v.scores {
		out[m] = true
	}
	return out
}

func (s *Snapshot) partition(tag string) *partition {
	p := s.partitions[tag]
	if p == nil {
		p = &partition{
			tag: tag, executions: make(map[string]*execution), flows: make(map[string]*flowRecord),
			indexes: make(map[string]value), workers: make(map[string]value), unresolved: make(map[string]value),
			runs: make(map[string]value), tagged: make(map[string]value), waitpoints: make(map[string]*waitpoint),
			schedules: make(map[string]*schedule), bulkJobs: make(map[string]map[string]string), runKeys: make(map[string]*runKey), budgets: make(map[string]*budgetRecord),
			budgetWaiting: make(map[string]value), graphs: make(map[string]*graph), graphRows: make(map[string]value), classes: make(map[string]map[string]string),
			key: func(rest string) string { return s.prefix + ":" + rest },
		}
		s.partitions[tag] = p
	}
	return p
}

func (p *partition) execution(id string) *execution {
	e := p.executions[id]
	if e == nil {
		e = &execution{
			id: id, key: p.key("exec:" + p.tag + ":" + id + ":core"), parts: make(map[string]value),
			deps: make(map[string]map[string]string), attempts: make(map[string]*attempt),
		}
		p.executions[id] = e
	}
	return e
}

func (p *partition) flow(id string) *flowRecord {
	f := p.flows[id]
	if f == nil {
		f = &flowRecord{
			id: id, tag: p.tag, key: p.key("flow:" + p.tag + ":" + id + ":core"), parts: make(map[string]value),
			joins: make(map[string]value), results: make(map[string]value),
			edges: make(map[string]map[string]string), out: make(map[string]value), in: make(map[string]value),
			groups: make(map[string]map[string]string), siblings: make(map[string]value),
		}
		p.flows[id] = f
	}
	return f
}

const unknownKey = "no such key is documented"

// sort assigns one key to its owner. It returns the fault of the key's name or type.
func (s *Snapshot) sort(key string, v value) string {
	rest := strings.TrimPrefix(key, s.prefix+":")
	head, tail, _ := strings.Cut(rest, ":")
	tag := tagOf(key)
	if tag == "" {
		return sortGlobal(rest, v)
	}
	switch head {
	case "quota", "usagededup", "sec":
		return "" // not of flows and executions
	}
	if strings.HasPrefix(tag, "{q:") || strings.HasPrefix(tag, "{b:") && head == "idx" {
		return ""
	}
	after, ok := strings.CutPrefix(tail, tag+":")
	if !ok && tail != tag {
		return unknownKey
	}
	if head == "ffx" && after == "barrier" {
		return wrongType(v, "string") // a program waits for replicas
	}
	p := s.partition(tag)
	if strings.HasPrefix(tag, "{b:") {
		return p.sortBudget(head, after, v)
	}
	switch head {
	case "exec":
		return p.sortExecution(after, v)
	case "attempt", "stream":
		return p.sortAttempt(key, head, after, v)
	case "flow":
		return p.sortFlow(after, v)
	case "idx":
		return p.sortIndex(key, after, v)
	case "ffx":
		return p.sortComposite(key, after, v)
	case "wp":
		return p.sortWaitpoint(after, v)
	case "signal", "sigdedup", "idem":
		return ""
	}
	return unknownKey
}

func sortGlobal(rest string, v value) string {
	switch {
	case rest == "config:partitions", rest == "idx:workers", rest == "idx:lanes":
		return ""
	case rest == "ffx:min_protocol":
		return wrongType(v, "string")
	case strings.HasPrefix(rest, "worker:") && (strings.HasSuffix(rest, ":alive") || strings.HasSuffix(rest, ":caps")):
		return wrongType(v, "string")
	}
	return unknownKey
}

func wrongType(v value, want string) string {
	if v.kind != want {
		return "is a " + v.kind + ", must be a " + want
	}
	return ""
}

// cutID splits "<tag>:<uuid>:<rest>" into the execution id and the rest.
func (p *partition) cutID(text string) (id, rest string, ok bool) {
	after, ok := strings.CutPrefix(text, p.tag+":")
	if !ok {
		return "", "", false
	}
	uuid, rest, _ := strings.Cut(after, ":")
	return p.tag + ":" + uuid, rest, len(uuid) == 36
}

func (p *partition) sortExecution(text string, v value) string {
	id, part, ok := p.cutID(text)
	if !ok {
		return unknownKey
	}
	types := map[string]string{
		"core": "hash", "payload": "string", "policy": "string", "tags": "hash", "result": "string", "lease:current": "hash",
		"lease:history": "stream", "claim_grant": "hash", "attempts": "zset", "suspension:current": "hash",
		"waitpoints": "set", "signals": "zset", "deps:meta": "hash", "deps:unresolved": "set", "deps:all_edges": "set",
		"wait": "string", "journal": "hash", "past": "hash", "past:before": "hash",
	}
	e := p.execution(id)
	if edge, isDep := strings.CutPrefix(part, "dep:"); isDep {
		e.deps[edge] = v.hash
		return wrongType(v, "hash")
	}
	want, known := types[part]
	if !known {
		return unknownKey
	}
	if part == "core" {
		e.core = v.hash
	}
	e.parts[part] = v
	return wrongType(v, want)
}

func (p *partition) sortAttempt(key, head, text string, v value) string {
	id, rest, ok := p.cutID(text)
	if !ok {
		return unknownKey
	}
	number, part, _ := strings.Cut(rest, ":")
	e := p.execution(id)
	a := e.attempts[number]
	if a == nil {
		a = &attempt{key: p.key("attempt:" + p.tag + ":" + id + ":" + number), parts: make(map[string]bool)}
		e.attempts[number] = a
	}
	switch {
	case head == "attempt" && part == "":
		a.record = v.hash
		return wrongType(v, "hash")
	case head == "attempt" && (part == "usage" || part == "policy"), head == "stream" && part == "meta":
		a.parts[head+" "+part] = true
		return wrongType(v, "hash")
	case head == "stream" && part == "":
		a.parts["stream"] = true
		return wrongType(v, "stream")
	}
	return unknownKey
}

func (p *partition) sortFlow(text string, v value) string {
	id, part, _ := strings.Cut(text, ":")
	if len(id) != 36 {
		return unknownKey
	}
	f := p.flow(id)
	kind, of, _ := strings.Cut(part, ":")
	switch kind {
	case "edge":
		f.edges[of] = v.hash
		return wrongType(v, "hash")
	case "out":
		f.out[of] = v
		return wrongType(v, "set")
	case "in":
		f.in[of] = v
		return wrongType(v, "set")
	case "edgegroup":
		f.groups[of] = v.hash
		return wrongType(v, "hash")
	case "siblings":
		f.siblings[of] = v
		return wrongType(v, "set")
	case "join":
		f.joins[of] = v
		return wrongType(v, "string")
	case "result":
		f.results[of] = v
		return wrongType(v, "string")
	}
	types := map[string]string{
		"core": "hash", "members": "set", "tags": "hash", "pending_cancels": "set", "input": "string",
		"budgets": "string", "events": "list", "events_kept": "list", "events_gone": "hash", "summary": "hash", "grant": "hash",
		"rerun": "set", "nodes": "string", "data": "string", "more": "hash", "results": "hash", "watchers": "zset",
	}
	want, known := types[kind]
	if !known || (of != "" && kind != "grant" && kind != "rerun") {
		return unknownKey
	}
	if part == "core" {
		f.core = v.hash
	}
	f.parts[part] = v
	return wrongType(v, want)
}

func (p *partition) sortIndex(key, text string, v value) string {
	if lane, found := strings.CutPrefix(text, "lane:"); found {
		for _, name := range []string{
			"eligible", "delayed", "active", "terminal", "suspended", "blocked:dependencies", "blocked:budget",
			"blocked:quota", "blocked:route", "blocked:operator",
		} {
			if of, ok := strings.CutSuffix(lane, ":"+name); ok {
				p.lanes = append(p.lanes, laneIndex{key, of, name, v.scores})
				return wrongType(v, "zset")
			}
		}
		return unknownKey
	}
	if worker, found := strings.CutPrefix(text, "worker:"); found {
		instance, ok := strings.CutSuffix(worker, ":leases")
		if !ok {
			return unknownKey
		}
		p.workers[instance] = v
		return wrongType(v, "set")
	}
	types := map[string]string{
		"lease_expiry": "zset", "suspension_timeout": "zset", "pending_waitpoint_expiry": "zset", "attempt_timeout": "zset",
		"execution_deadline": "zset", "all_executions": "set", "flow_index": "set", "cancel_backlog": "zset",
		"pending_cancel_groups": "set",
	}
	want, known := types[text]
	if !known {
		return unknownKey
	}
	p.indexes[text] = v
	return wrongType(v, want)
}

// sortLane files an index that composite calls keep for a lane. The key of a queue may have any text.
func (p *partition) sortLane(key, text string, v value) string {
	lane, name, _ := strings.Cut(text, ":")
	lane = partUnescaper.Replace(lane)
	if fairKey, found := strings.CutPrefix(name, "queue:"); found {
		p.queues = append(p.queues, queue{key, lane, fairKey, v.scores})
		return wrongType(v, "zset")
	}
	switch name {
	case "reclaimable":
		p.reclaimable = append(p.reclaimable, laneIndex{key, lane, "reclaimable", v.scores})
		return wrongType(v, "zset")
	case "turns":
		p.turns = append(p.turns, laneIndex{key, lane, "turns", v.scores})
		return wrongType(v, "zset")
	case "order":
		return wrongType(v, "hash")
	case "suspect_turn":
		return wrongType(v, "string")
	case "partitions":
		p.sharesLanes = true
		return wrongType(v, "set")
	}
	return unknownKey
}

// Parts of keys that others follow have no colons.
var (
	partEscaper   = strings.NewReplacer("%", "%25", ":", "%3A")
	partUnescaper = strings.NewReplacer("%25", "%", "%3A", ":")
)

func (p *partition) sortComposite(key, text string, v value) string {
	if lane, found := strings.CutPrefix(text, "lane:"); found {
		return p.sortLane(key, lane, v)
	}
	if rest, found := strings.CutPrefix(text, "budget:"); found {
		id, ok := strings.CutSuffix(rest, ":waiting")
		if !ok {
			return unknownKey
		}
		p.budgetWaiting[id] = v
		return wrongType(v, "zset")
	}
	if strings.HasPrefix(text, "sent:") {
		return wrongType(v, "string") // a value that no call has accepted
	}
	if id, found := strings.CutPrefix(text, "unresolved:"); found {
		p.unresolved[id] = v
		return wrongType(v, "set")
	}
	if name, found := strings.CutPrefix(text, "runs:"); found {
		p.runs[name] = v
		return wrongType(v, "list")
	}
	if tag, found := strings.CutPrefix(text, "tagged_runs:"); found {
		p.tagged[tag] = v
		return wrongType(v, "zset")
	}
	if id, found := strings.CutPrefix(text, "schedule:"); found {
		return p.sortSchedule(id, v)
	}
	if id, found := strings.CutPrefix(text, "bulk_job:"); found {
		p.bulkJobs[id] = v.hash
		return wrongType(v, "hash")
	}
	if id, found := strings.CutPrefix(text, "run_key:"); found {
		return p.sortRunKey(id, v)
	}
	if hash, found := strings.CutPrefix(text, "graph_rows:"); found {
		p.graphRows[hash] = v
		return wrongType(v, "string")
	}
	if id, found := strings.CutPrefix(text, "run_class:"); found {
		p.classes[id] = v.hash
		return wrongType(v, "hash")
	}
	if hash, found := strings.CutPrefix(text, "graph:"); found {
		p.graphs[hash] = newGraph(key, v.hash)
		return wrongType(v, "hash")
	}
	if _, found := strings.CutPrefix(text, "run_feed:"); found {
		return wrongType(v, "stream")
	}
	if text == "search_secret" {
		return wrongType(v, "string")
	}
	if _, found := strings.CutPrefix(text, "audit_log:"); found {
		return wrongType(v, "stream")
	}
	if _, found := strings.CutPrefix(text, "failure_hook:"); found {
		return wrongType(v, "hash")
	}
	if _, found := strings.CutPrefix(text, "worker_record:"); found {
		return wrongType(v, "hash")
	}
	if _, found := strings.CutPrefix(text, "published:"); found {
		return wrongType(v, "hash")
	}
	if _, found := strings.CutPrefix(text, "published_flows:"); found {
		return wrongType(v, "zset")
	}
	if _, found := strings.CutPrefix(text, "published_history:"); found {
		return wrongType(v, "list")
	}
	if _, found := strings.CutPrefix(text, "run_counts:"); found {
		return wrongType(v, "hash")
	}
	types := map[string]string{
		"worker_reports": "zset", "worker_builds": "hash", "worker_builds_by_use": "zset",
		"run_counts": "hash", "run_recount": "hash", "lane_counts": "hash", "schedules_taken": "hash", "open_feeds": "hash",
		"run_keys_due": "zset", "bulk_jobs": "set", "bulk_jobs_due": "zset", "schedules": "set", "schedules_due": "zset", "all_runs": "list", "run_lists": "hash", "hollow_lists": "hash", "compacted_list": "list", "lanes": "set", "backlog": "list", "flow_deadlines": "zset", "start_deadlines": "zset", "closed_flows": "list", "open_waits": "zset",
		"purge_due": "zset", "unused_graphs": "zset", "reruns": "set", "workers": "hash", "pauses": "hash", "held": "zset", "unadmitted": "zset",
		"children": "zset", "unwanted": "zset", "feed": "stream",
		"budget_gates": "hash",
	}
	want, known := types[text]
	if !known {
		return unknownKey
	}
	p.indexes[text] = v
	return wrongType(v, want)
}

func (e *execution) keyNames() string {
	var names []string
	for part := range e.parts {
		names = append(names, part)
	}
	for edge := range e.deps {
		names = append(names, "dep:"+edge)
	}
	for number := range e.attempts {
		names = append(names, "attempt "+number)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

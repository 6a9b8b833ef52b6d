package invariant

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
)

// graphEdgeID returns an id for the n-th edge of a graph to a node, in place of the id of an edge's record.
func graphEdgeID(ordinal, n int) string {
	return graphEdgePrefix + strconv.Itoa(ordinal) + " " + strconv.Itoa(n)
}

const graphEdgePrefix = "graph "

func ofGraph(edge string) bool { return strings.HasPrefix(edge, graphEdgePrefix) }

// fillEdges adds to a run the edges of its graph in the form of records, and to its nodes their edges.
func (p *partition) fillEdges(f *flowRecord) {
	for i := range f.run.rows {
		down := p.execution(nodeID(p.tag, f.id, i+1))
		n := f.run.definition.node(i + 1)
		if n == nil {
			continue
		}
		for at, edge := range n.ups {
			up := p.execution(nodeID(p.tag, f.id, edge.ordinal))
			id, input := graphEdgeID(i+1, at+1), ""
			if edge.carries {
				input = up.get("node")
			}
			f.edges[id] = map[string]string{
				"edge_id": id, "flow_id": f.id, "upstream_execution_id": up.id, "downstream_execution_id": down.id,
				"dependency_kind": edge.kind, "data_passing_ref": input,
			}
			f.link(up.id, down.id, id)
			state, late := p.stateOf(f, up, down, edge)
			down.edges = append(down.edges, rowEdge{up: up, kind: edge.kind, state: state, late: late})
		}
	}
}

// link enters an edge into the lists of its ends.
func (f *flowRecord) link(up, down, edge string) {
	if f.out[up].set == nil {
		f.out[up] = value{kind: "set", set: make(set)}
	}
	if f.in[down].set == nil {
		f.in[down] = value{kind: "set", set: make(set)}
	}
	f.out[up].set[edge], f.in[down].set[edge] = true, true
}

// letters are the states of a join's edges by their letters in its string.
var letters = map[byte]string{'s': "satisfied", 'l': "satisfied", 'f': "impossible", 'c': "impossible", 'x': "impossible", 'k': "impossible"}

// stateOf returns the state of an edge of a graph: for a join, the letter in the join's string; otherwise the outcome
// of the upstream, once the edge is resolved.
func (p *partition) stateOf(f *flowRecord, up, down *execution, edge graphEdge) (state string, late bool) {
	if n := f.run.definition.node(down.row.ordinal); n.get("join") != "" {
		text := f.joins[down.id].text
		if edge.ordinal >= len(text) || letters[text[edge.ordinal]] == "" {
			return "unsatisfied", false
		}
		return letters[text[edge.ordinal]], text[edge.ordinal] == 'l'
	}
	switch {
	case up.row == nil || !up.terminal() || !f.run.definition.tells(up.row, down.row.ordinal):
		return "unsatisfied", false
	case satisfies(edge.kind, up.outcomeFor(edge.kind)):
		return "satisfied", false
	}
	return "impossible", false
}

// Whether the edge from one node to another has been resolved.
func (g *graph) tells(up *row, ordinal int) bool {
	n := g.node(up.ordinal)
	if n == nil {
		return false
	}
	for i := range min(up.told, len(n.downs)) {
		if n.downs[i].ordinal == ordinal {
			return true
		}
	}
	return false
}

// classes checks the classes of runs; runs are the numbers of their runs. It returns how many classes use each graph.
func (c *checker) classes(p *partition, runs map[string]int) (uses map[string]int) {
	uses = make(map[string]int)
	for id, class := range p.classes {
		key := p.key("ffx:" + p.tag + ":run_class:" + id)
		if got := number(class["runs"]); got != runs[id] || got == 0 {
			c.fault(RuleRows, key, "is the class of %d runs, it says %s", runs[id], class["runs"])
		}
		decoded, err := runrecord.DecodeClass(class["text"])
		if err != nil {
			c.fault(RuleRows, key, "%v", err)
			continue
		}
		if sum := sha1.Sum([]byte(class["text"])); hex.EncodeToString(sum[:8]) != id {
			c.fault(RuleRows, key, "is not the beginning of the hash of its text")
		}
		uses[decoded.Graph]++
	}
	return uses
}

// rows checks the form of runs with rows, and the keys that belong to them.
func (c *checker) rows(p *partition) {
	runs := make(map[string]int) // by class
	for _, f := range p.flows {
		if f.run == nil {
			c.rowless(f)
			continue
		}
		runs[f.run.class]++
		c.run(p, f)
	}
	uses := c.classes(p, runs)
	for hash, g := range p.graphs {
		for _, fault := range g.faults {
			c.fault(RuleRows, g.key, "%s", fault)
		}
		if got := number(g.hash["classes"]); got != uses[hash] {
			c.fault(RuleRows, g.key, "is used by %d classes, it says %s", uses[hash], g.hash["classes"])
		}
		c.graph(g)
		c.graphRows(p, hash, g)
	}
	for hash := range p.graphRows {
		if p.graphs[hash] == nil {
			c.fault(RuleRows, p.key("ffx:"+p.tag+":graph_rows:"+hash), "is of a graph that does not exist")
		}
	}
	c.unusedGraphs(p, uses)
	c.registry(p)
}

// rowless checks that a flow without rows has no keys that belong to rows.
func (c *checker) rowless(f *flowRecord) {
	for _, part := range []string{"more", "results"} {
		if _, found := f.parts[part]; found {
			c.fault(RuleRows, f.key, "has no nodes, but %s", part)
		}
	}
	for join := range f.joins {
		c.fault(RuleRows, f.key, "has no nodes, but the edges of join %s", join)
	}
}

// graph checks that both ends of every edge of a graph that is complete know it.
func (c *checker) graph(g *graph) {
	if !g.complete() {
		return // the other ends of edges may be missing yet
	}
	type ends struct{ up, down int }
	ups := make(map[ends]graphEdge)
	for i := range g.nodes {
		for _, e := range g.nodes[i].ups {
			ups[ends{e.ordinal, i + 1}] = e
		}
	}
	for i := range g.nodes {
		if g.hash["@"+g.nodes[i].get("name")] != strconv.Itoa(i+1) {
			c.fault(RuleRows, g.key, "node %q is %d, by its name it is %q", g.nodes[i].get("name"), i+1, g.hash["@"+g.nodes[i].get("name")])
		}
		for _, e := range g.nodes[i].downs {
			if e.ordinal > len(g.nodes) && !g.complete() {
				continue // its client has not stored the other end yet
			}
			other, found := ups[ends{i + 1, e.ordinal}]
			if !found || other.kind != e.kind || other.carries != e.carries {
				c.fault(RuleRows, g.key, "the edge from node %d to %d differs from the one at the other end", i+1, e.ordinal)
			}
			delete(ups, ends{i + 1, e.ordinal})
		}
	}
	for e := range ups {
		c.fault(RuleRows, g.key, "node %d does not know its edge to %d", e.up, e.down)
	}
	n := 0
	for i := range g.nodes {
		n += len(g.nodes[i].ups)
	}
	if edges := number(g.hash["edges"]); n != edges {
		c.fault(RuleRows, g.key, "edges is %d, it has %d", edges, n)
	}
}

// graphRows checks that a graph has a header and a row for each node, which runs are copies of: in its hash when one
// chunk has them all, else in a separate text.
func (c *checker) graphRows(p *partition, hash string, g *graph) {
	if g.hash["complete"] == "" {
		return
	}
	nodes, rows, want := number(g.hash["nodes"]), g.hash["rows"], 0
	if want = rowread.Place(nodes, nodes+1); nodes > graphChunk {
		rows = p.graphRows[hash].text
	} else {
		want -= rowread.RunHeadBytes
	}
	if len(rows) != want {
		c.fault(RuleRows, g.key, "has %d bytes of rows for %d nodes, must have %d", len(rows), nodes, want)
	}
}

// unusedGraphs checks that the index of graphs that no run uses holds those and no others.
func (c *checker) unusedGraphs(p *partition, uses map[string]int) {
	unused, key := p.indexes["unused_graphs"].scores, p.key("ffx:"+p.tag+":unused_graphs")
	for hash, g := range p.graphs {
		if _, listed := unused[hash]; listed != (uses[hash] == 0) {
			c.fault(RuleRows, g.key, "is used by %d classes, but in the index of those that are not: %t", uses[hash], listed)
		}
	}
	for hash := range unused {
		if p.graphs[hash] == nil {
			c.fault(RuleRows, key, "holds %s, which does not exist", hash)
		}
	}
}

// registry checks the numbers of workers.
func (c *checker) registry(p *partition) {
	workers, key := p.indexes["workers"].hash, p.key("ffx:"+p.tag+":workers")
	for field, text := range workers {
		both, isWorker := strings.CutPrefix(field, "@")
		of, isSince := strings.CutPrefix(field, "since ")
		switch _, _, ok := splitWorker(text); {
		case field == "last":
		case isSince:
			if workers[of] == "" || number(text) == 0 {
				c.fault(RuleRows, key, "%s is %q, the worker is %q", field, text, workers[of])
			}
		case isWorker:
			if workers[text] != both {
				c.fault(RuleRows, key, "%s is number %s, which is %q", both, text, workers[text])
			}
		case !ok || workers["@"+text] != field || number(field) < 1 || number(field) > number(workers["last"]):
			c.fault(RuleRows, key, "%s is %q, whose number is %q, the last one %s", field, text, workers["@"+text], workers["last"])
		}
	}
}

// run checks the rows of one run against its graph and the keys that belong to it.
func (c *checker) run(p *partition, f *flowRecord) {
	g := f.run.definition
	switch {
	case f.core == nil:
		return // reported as such
	case g == nil || !g.complete():
		c.fault(RuleRows, f.run.key, "its graph %s does not exist", f.run.graph)
		return
	case len(g.nodes) != f.run.count:
		c.fault(RuleRows, f.run.key, "has %d nodes, its graph %d", f.run.count, len(g.nodes))
		return
	}
	if at := f.core["created_at"]; at != strconv.FormatInt(f.run.created, 10) {
		c.fault(RuleRows, f.run.key, "was created at %d, the record of the run says %s", f.run.created, at)
	}
	if !f.run.extended && len(f.parts["members"].set) > 0 {
		c.fault(RuleRows, f.run.key, "has further members, but is not marked as extended")
	}
	if f.purging() {
		return
	}
	c.values(p, f)
	if _, marked := f.parts["watchers"]; marked && (!f.run.watched || !f.open()) {
		c.fault(RuleRows, f.run.key, "has watchers, but is %s, marked as watched: %t", f.core["public_flow_state"], f.run.watched)
	}
	c.plain(f)
	c.marks(p, f)
	for i := range f.run.rows {
		c.row(p, f, p.executions[nodeID(p.tag, f.id, i+1)])
	}
	for ordinal, fields := range f.more() {
		if ordinal < 1 || ordinal > f.run.count {
			c.fault(RuleRows, p.key("flow:"+p.tag+":"+f.id+":more"), "has fields of node %d: %v", ordinal, fields)
		} else if r := &f.run.rows[ordinal-1]; (fields["failure"] != "") != r.flag(rowread.NodeRowRetried) {
			c.fault(RuleRows, f.run.key, "node %d is marked as tried again: %t, but has %v", ordinal, r.flag(rowread.NodeRowRetried), fields)
		} else if !r.flag(rowread.NodeRowMore) && !(len(fields) == 1 && fields["failure"] != "") {
			c.fault(RuleRows, f.run.key, "node %d is not marked as having further fields, but has %v", ordinal, fields)
		}
	}
	for ordinal := range f.parts["results"].hash {
		if n, err := strconv.Atoi(ordinal); err != nil || n < 1 || n > f.run.count {
			c.fault(RuleRows, p.key("flow:"+p.tag+":"+f.id+":results"), "has a result of node %q", ordinal)
		}
	}
	for id := range f.joins {
		if e := p.executions[id]; e == nil || e.row == nil || e.row.run != f || g.node(e.row.ordinal).get("join") == "" {
			c.fault(RuleRows, p.key("flow:"+p.tag+":"+f.id+":join:"+id), "is of no join")
		}
	}
}

// values checks the values of a run that have their own keys: each is named in its place.
func (c *checker) values(p *partition, f *flowRecord) {
	stem := "flow:" + p.tag + ":" + f.id + ":"
	keys, err := enginerpc.NewKeys(strings.TrimSuffix(p.key(""), ":"))
	if err != nil {
		c.fault(RuleRows, f.run.key, "%v", err)
		return
	}
	check := func(what, name, stored, own string) {
		key, size, named := keys.KeptValue(stored)
		switch {
		case named && (key != p.key(stem+name) || size != len(own)):
			c.fault(RuleRows, f.run.key, "names %q as its %s, which has %d bytes", stored, what, len(own))
		case !named && stored != "" && own != "":
			c.fault(RuleRows, f.run.key, "has its %s after its rows, and another one in its own key", what)
		}
	}
	check("input", "input", f.run.input, f.parts["input"].text)
	for i := range f.run.rows {
		ordinal := strconv.Itoa(i + 1)
		stored, found := f.run.data.Results[i+1]
		if !found {
			stored = f.parts["results"].hash[ordinal]
		}
		check("result of node "+ordinal, "result:"+ordinal, stored, f.results[ordinal].text)
	}
	for ordinal := range f.results {
		n, err := strconv.Atoi(ordinal)
		_, inData := f.run.data.Results[n]
		if _, inHash := f.parts["results"].hash[ordinal]; err != nil || !inData && !inHash {
			c.fault(RuleRows, p.key(stem+"result:"+ordinal), "is named nowhere")
		}
	}
}

// plain checks the mark of a run of whose record calls read little.
func (c *checker) plain(f *flowRecord) {
	if f.run.flags&rowread.RunHeadPlain == 0 {
		return
	}
	if !f.open() {
		c.fault(RuleRows, f.run.key, "is marked as plain, but is %s", f.core["public_flow_state"])
	}
	if f.core["paused"] != "" {
		c.fault(RuleRows, f.run.key, "is marked as plain, but paused is %q", f.core["paused"])
	}
	if f.run.extended || f.run.replayed {
		c.fault(RuleRows, f.run.key, "is marked as plain, but extended: %t, replayed: %t", f.run.extended, f.run.replayed)
	}
	special := f.core["budgets"] != "" || f.core["parent_execution_id"] != ""
	if marked := f.run.flags&rowread.RunHeadSpecial != 0; marked != special {
		c.fault(RuleRows, f.run.key, "is marked as one with budgets or a parent: %t, but that is %t", marked, special)
	}
}

// marks checks those marks of a run on which its end depends.
func (c *checker) marks(p *partition, f *flowRecord) {
	if marked := f.run.marks&rowread.RunHeadKeyed != 0; marked != (f.core["run_key_id"] != "") {
		c.fault(RuleRows, f.run.key, "is marked as one with a key: %t, but its key is %q", marked, f.core["run_key_id"])
	}
	if f.run.marks&rowread.RunHeadJudged != 0 {
		return
	}
	for id := range f.members() {
		if e := p.executions[id]; e != nil && e.terminal() && e.get("terminal_outcome") != "success" &&
			e.get("absorbed") != "cancelled_siblings" {
			c.fault(RuleRows, f.run.key, "is not marked as judged, but %s is %s", id, e.get("terminal_outcome"))
		}
	}
}

// leftovers are the fields that have no meaning for a node that has ended.
var leftovers = []string{
	"blocking_detail", "delay_until", "pending_retry_reason", "pending_previous_attempt_index", "pending_replay_attempt",
	"pending_replay_reason", "pending_replay_requested_by", "remaining_attempt_timeout", "lease_expired_at", "lease_revoked_at",
	"lease_revoke_reason", "lease_last_renewed_at", "lease_renewal_deadline", "current_suspension_id", "current_waitpoint_id",
	"prior_eligibility_state", "prior_blocking_reason", "prior_blocking_detail",
}

// moreOf checks the fields of a node that have no column.
func (c *checker) moreOf(f *flowRecord, e *execution) {
	r, fields := e.row, f.more()[e.row.ordinal]
	n := f.run.definition.node(r.ordinal)
	for field, text := range map[string]string{"lane_id": n.get("lane_id"), "current_lane": n.get("lane_id"), "priority": n.get("priority")} {
		if own, found := fields[field]; found && own == text {
			c.fault(RuleRows, e.key, "%s is %s outside the row, as in the graph already", field, own)
		}
	}
	if r.lease == otherLease && fields["lease"] == "" {
		c.fault(RuleLease, e.key, "the lease is marked as outside the row, but is missing")
	}
	if !e.terminal() {
		return
	}
	for _, field := range leftovers {
		if text, found := fields[field]; found {
			c.fault(RuleRows, e.key, "has ended, but %s is still %q", field, text)
		}
	}
}

// joinLetters checks that the string of a join has states of its own edges only.
func (c *checker) joinLetters(f *flowRecord, e *execution) {
	text := f.joins[e.id].text
	ups := make(map[int]bool)
	for _, edge := range f.run.definition.node(e.row.ordinal).ups {
		ups[edge.ordinal] = true
	}
	for at := range len(text) {
		if letter := text[at]; letter != 0 && (!ups[at] || letters[letter] == "") {
			c.fault(RuleDeps, e.key, "knows %q of an edge from node %d", letter, at)
		}
	}
}

// row checks one row.
func (c *checker) row(p *partition, f *flowRecord, e *execution) {
	r, n := e.row, f.run.definition.node(e.row.ordinal)
	for i, field := range stateFields {
		if v := r.states[i]; v < 1 || v > len(field.values) && v != elseNumber || v == elseNumber && e.get(field.name) == "" {
			c.fault(RuleState, e.key, "%s has the number %d", field.name, v)
		}
	}
	switch {
	case r.told > len(n.downs):
		c.fault(RuleDeps, e.key, "%d edges have been resolved, %d exist", r.told, len(n.downs))
	case r.told > 0 && !e.terminal():
		c.fault(RuleDeps, e.key, "%d edges have been resolved, but it is %s", r.told, e.get("lifecycle_phase"))
	case r.open > len(n.ups)+len(e.parts["deps:unresolved"].set):
		c.fault(RuleDeps, e.key, "%d edges are open, %d lead to it", r.open, len(n.ups))
	}
	if r.flag(rowread.NodeRowLeased) != (e.get("lifecycle_phase") == "active") {
		c.fault(RuleLease, e.key, "shows a lease: %t, in phase %s", r.flag(rowread.NodeRowLeased), e.get("lifecycle_phase"))
	}
	if text := p.indexes["workers"].hash[strconv.Itoa(int(r.worker))]; r.worker > 0 && text == "" {
		c.fault(RuleLease, e.key, "is held by worker number %d, which is unknown", r.worker)
	}
	if isLeased := r.flag(rowread.NodeRowLeased); isLeased && r.worker == 0 || !isLeased && r.worker > 0 && e.get("terminal_outcome") != "success" {
		c.fault(RuleLease, e.key, "shows a lease: %t, of worker number %d", r.flag(rowread.NodeRowLeased), r.worker)
	}
	if r.flag(rowread.NodeRowLeased) && r.lease == noLease {
		c.fault(RuleLease, e.key, "shows a lease, but has none")
	}
	join := p.joinOf(e)
	if (n.get("join") != "") != (join != nil) && join == nil {
		c.fault(RuleDeps, e.key, "is a join by its graph, but has no edge group")
	}
	if _, found := f.joins[e.id]; !found && join != nil && n.get("join") != "" && (f.open() || join.fired()) && f.joinResolved(e) {
		c.fault(RuleDeps, e.key, "an upstream has resolved its edge, but the join has no states of edges")
	}
	c.joinLetters(f, e)
	c.moreOf(f, e)
	c.rowIndexes(p, e)
}

// joinResolved reports whether an upstream of a join has resolved its edge, in a run that was never rerun.
func (f *flowRecord) joinResolved(e *execution) bool {
	if f.core["rerun_count"] != "" || f.run.replayed {
		return false
	}
	for _, edge := range e.edges {
		if edge.up.row != nil && f.run.definition.tells(edge.up.row, e.row.ordinal) {
			return true
		}
	}
	return false
}

// rowIndexes checks that a row is in none of the indexes that rows are not in.
func (c *checker) rowIndexes(p *partition, e *execution) {
	if p.index("all_executions")[e.id] {
		c.fault(RuleKeys, p.key("idx:"+p.tag+":all_executions"), "holds %s, which has a row", e.id)
	}
	for instance, v := range p.workers {
		if v.set[e.id] {
			c.fault(RuleLease, p.key("idx:"+p.tag+":worker:"+instance+":leases"), "holds %s, which has a row", e.id)
		}
	}
}

// unlisted reports whether a lane index never contains executions with rows: the rows alone hold these states.
func unlisted(index string) bool {
	return index == "terminal" || index == "active" || index == "blocked:dependencies"
}

// openEdges counts the unresolved edges to a node. known is false if the count of the row may differ: a closed run
// resolves no edges, and an ended node does not count its resolved ones.
func (e *execution) openEdges(f *flowRecord, join edgeGroup) (open int, known bool) {
	if join.fired() {
		return 0, true
	}
	for _, edge := range e.edges {
		if edge.state == "unsatisfied" {
			open++
		}
	}
	return open, f.open() && !e.terminal() && !f.run.replayed
}

// rowDeps checks the states of the edges to a node with a row. It returns the number of impossible edges.
func (c *checker) rowDeps(p *partition, e *execution, join edgeGroup, unresolved int) (impossible int) {
	f := e.row.run
	if open, known := e.openEdges(f, join); known && e.row.open != open+unresolved {
		c.fault(RuleDeps, e.key, "%d edges are open, must be %d", e.row.open, open+unresolved)
	}
	for i, edge := range e.edges {
		if edge.state == "impossible" {
			impossible++
		}
		if edge.up.row == nil {
			c.fault(RuleRows, e.key, "edge %d leads from a node that does not exist", i+1)
			continue
		}
		waits := number(e.get("replay_count")) > 0
		if edge.state == "unsatisfied" && edge.up.terminal() && !e.terminal() && !join.fired() && !waits && f.open() && !f.rerunning() &&
			!p.inBacklog(edge.up.id) {
			c.fault(RuleStuck, e.key, "upstream %s has ended (%s), but the edge is not resolved and not in the backlog", edge.up.id,
				edge.up.get("terminal_outcome"))
		}
		if join != nil {
			c.joinEdge(e, edge)
		}
	}
	return impossible
}

// joinEdge checks the state of a join's edge against the outcome of its upstream.
func (c *checker) joinEdge(e *execution, edge rowEdge) {
	if edge.state == "unsatisfied" || number(edge.up.get("replay_count")) > 0 {
		return
	}
	want := "impossible"
	if satisfies(edge.kind, edge.up.outcomeFor(edge.kind)) {
		want = "satisfied"
	}
	if !edge.up.terminal() || edge.state != want {
		c.fault(RuleDeps, e.key, "the edge from %s is %s, whose outcome is %s", edge.up.id, edge.state, edge.up.get("terminal_outcome"))
	}
}

func (p *partition) inBacklog(id string) bool {
	if p.backlogSet == nil {
		p.backlogSet = make(set)
		for _, entry := range p.indexes["backlog"].list {
			p.backlogSet[entry] = true
		}
	}
	return p.backlogSet[id]
}

// rootLeft reports whether a node is one of those roots of a wide run that the keeper has yet to release.
func (p *partition) rootLeft(e *execution) bool {
	if e.row == nil || len(e.edges) > 0 {
		return false
	}
	f := e.row.run
	left := number(f.core["roots_left"])
	if left == 0 || f.run.definition == nil {
		return false
	}
	behind := 0
	for i := e.row.ordinal; i < len(f.run.definition.nodes); i++ {
		if len(f.run.definition.nodes[i].ups) == 0 {
			behind++
		}
	}
	return behind < left
}

// owed reports whether a run that is over has yet to end a member.
func (f *flowRecord) owed(e *execution) bool {
	from := number(f.core["owed_from"])
	return f.parts["pending_cancels"].set[e.id] || from > 0 && e.row != nil && e.row.ordinal >= from
}

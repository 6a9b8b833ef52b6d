package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// pageCursor matches the cursor of a page.
var pageCursor = regexp.MustCompile(`^(s?[0-9]{1,20})?$`)

// checkRequest checks the request for a description, with values of at most the given number of bytes, and sets the
// defaults.
func checkRequest(q *describeRequest, most int) error {
	switch {
	case q.valueBytes < 0 || q.valueBytes > most:
		return invalid("WithValues(%d): must be 0 to %d bytes", q.valueBytes, most)
	case q.paged && (q.nodes < 1 || q.nodes > describe.MaxPage):
		return invalid("WithPage of %d nodes: must be 1 to %d", q.nodes, describe.MaxPage)
	case q.paged && !pageCursor.MatchString(q.cursor):
		return invalid("WithPage: %.40q is not a cursor: use RunDescription.Next", q.cursor)
	}
	q.valueBytes = cmp.Or(q.valueBytes, describe.DefaultValueBytes)
	return nil
}

// cut leaves the nodes of a page, where the engine has given all of them.
func (d *RunDescription) cut(q describeRequest) {
	if !q.paged || len(d.Nodes) <= q.nodes {
		return
	}
	from, _ := strconv.Atoi(q.cursor)
	to := min(from+q.nodes, len(d.Nodes))
	if to < len(d.Nodes) {
		d.Next = strconv.Itoa(to)
	}
	d.Nodes = d.Nodes[min(from, to):to]
}

// readValues are values of a run as the engine gives them.
type readValues struct {
	input enginerpc.ReadValue
	// nodes has the values of the nodes that were read.
	nodes map[string]enginerpc.ReadValue
	// bytes are those that were read.
	bytes int
}

// has reports whether all the nodes were read.
func (v *readValues) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, read := v.nodes[name]; return !read })
}

// valuesPerCall is the number of executions that one call reads values of.
const valuesPerCall = 256

// readValues reads the input of the run, and the states and results of nodes by their names, limit bytes of each, until
// it has read most bytes. Without names it reads nothing.
func (r *RunRef) readValues(
	ctx context.Context, d *RunDescription, names []string, limit, most int,
) (read readValues, err error) {
	read.nodes = make(map[string]enginerpc.ReadValue, len(names))
	store, err := engine.Capability[engine.ValueStore](r.client.session.Backend)
	if err != nil || len(names) == 0 {
		return read, err
	}
	call := enginerpc.ReadValuesCall{Partition: r.partition, FlowID: r.flowID, MaxBytes: int64(limit)}
	for len(names) > 0 && read.bytes <= most {
		page := names[:min(len(names), valuesPerCall)]
		call.Executions = make([]enginecore.ExecutionID, len(page))
		for i, name := range page {
			call.Executions[i] = r.nodeID(d, name)
		}
		reply, err := store.ReadValues(ctx, call)
		if err != nil {
			return read, err
		}
		read.input = enginerpc.ReadValue{Has: reply.HasInput, Size: reply.InputSize, Part: reply.Input}
		for i, value := range reply.Executions {
			read.nodes[page[i]] = value
			read.bytes += len(value.Part)
		}
		names = names[max(1, len(reply.Executions)):]
	}
	return read, nil
}

// nodeID returns the id of the execution of a node that the graph of the run has.
func (r *RunRef) nodeID(d *RunDescription, name string) enginecore.ExecutionID {
	if !engine.Has[engine.GraphStore](r.client.session.Backend) {
		return keyspace.ExecutionIDFor(r.partition, r.flowID, name)
	}
	return keyspace.NodeExecutionID(r.partition, r.flowID, d.places[name]+1)
}

// addValues adds the values of the run and of the nodes that d describes, q.valueBytes of each. It returns how many of
// the nodes have them: with q.paged, those whose values have describe.MaxSumBytes together, at least one; otherwise
// all, of which the values of the last ones are truncated.
func (r *RunRef) addValues(ctx context.Context, d *RunDescription, q describeRequest) (fit int, err error) {
	if d.graph == nil {
		return len(d.Nodes), nil
	}
	if len(d.Nodes) > describe.MaxPage {
		return 0, invalid("WithValues of %d nodes: at most %d are allowed: use WithPage", len(d.Nodes),
			describe.MaxPage)
	}
	read, err := r.readValues(ctx, d, d.valuesNeeded(), q.valueBytes, describe.MaxSumBytes)
	if err != nil {
		return 0, err
	}
	codec := codecName(d.graph.Codec)
	d.Input = partOf(read.input, codec)
	if d.graph.Return != "" && d.State == fabrictype.RunSucceeded {
		d.Result = partOf(read.nodes[d.graph.Return], codec)
	}
	bytes := dataSize(d.Input) + dataSize(d.Result)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		spec := d.specs[n.Name]
		if spec == nil {
			continue
		}
		full := !read.has(n.Name) || !read.has(d.known(spec.Input.InputNodes())...)
		limit := q.valueBytes
		if i > 0 {
			limit = min(limit, describe.MaxSumBytes-bytes)
		}
		if err := r.addNodeValues(ctx, n, spec, read, full, limit); err != nil {
			return 0, err
		}
		bytes += dataSize(n.Input) + dataSize(n.Result)
		if i > 0 && q.paged && (full || bytes >= describe.MaxSumBytes) {
			return i, nil
		}
	}
	return len(d.Nodes), nil
}

// addNodeValues adds the values of one node, limit bytes of each. With full, not all that they need was read.
func (r *RunRef) addNodeValues(
	ctx context.Context, n *fabrictype.Node, spec *flowgraph.Node, read readValues, full bool, limit int,
) (err error) {
	limit = max(0, limit)
	codec := codecName(spec.Codec)
	if n.Result = cutTo(limit, partOf(read.nodes[n.Name], codec)); full && spec.Input.Kind != "" {
		n.Input = &fabrictype.Value{Codec: codec, Size: -1, Truncated: true}
		return nil
	}
	n.Input, err = r.inputOf(ctx, n, spec, read, limit)
	return err
}

// dataSize returns how many bytes of a value there are.
func dataSize(v *fabrictype.Value) int {
	if v == nil {
		return 0
	}
	return len(v.JSON) + len(v.Text) + len(v.Data)
}

// cutTo leaves at most limit bytes of a value.
func cutTo(limit int, v *fabrictype.Value) *fabrictype.Value {
	if dataSize(v) <= limit {
		return v
	}
	return newValue(v.Codec, v.Size, v.Bytes()[:limit:limit])
}

// known returns the names that the graph of the run has.
func (d *RunDescription) known(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, known := d.places[name]; return !known })
}

// takeValues takes the values of another description of the same run, of the nodes that d has.
func (d *RunDescription) takeValues(from *RunDescription) {
	d.Input, d.Result = from.Input, from.Result
	values := make(map[string]*fabrictype.Node, len(from.Nodes))
	for i := range from.Nodes {
		values[from.Nodes[i].Name] = &from.Nodes[i]
	}
	for i := range d.Nodes {
		if n := values[d.Nodes[i].Name]; n != nil {
			d.Nodes[i].Input, d.Nodes[i].Result = n.Input, n.Result
		}
	}
}

// valuesNeeded names the nodes whose results are shown or are part of an input that is shown.
func (d *RunDescription) valuesNeeded() []string {
	var names []string
	seen := make(map[string]bool)
	add := func(name string) {
		if _, known := d.places[name]; known && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	add(d.graph.Return)
	for _, n := range d.Nodes {
		add(n.Name)
		if spec := d.specs[n.Name]; spec != nil {
			for _, name := range spec.Input.InputNodes() {
				add(name)
			}
		}
	}
	return names
}

// inputOf composes the input of a node as its worker does.
func (r *RunRef) inputOf(
	ctx context.Context, n *fabrictype.Node, spec *flowgraph.Node, read readValues, limit int,
) (*fabrictype.Value, error) {
	if spec.Input.Kind == "" {
		return nil, nil
	}
	codec := codecName(spec.Codec)
	names := spec.Input.InputNodes()
	results := make(map[string][]byte, len(names))
	truncated := spec.Input.UsesFlowInput() && int(read.input.Size) > len(read.input.Part)
	for _, name := range names {
		if value := read.nodes[name]; value.Has {
			results[name] = value.Part
			truncated = truncated || int(value.Size) > len(value.Part)
		}
	}
	switch {
	case truncated && spec.Input.Kind == flowgraph.ExprInput:
		return partOf(read.input, codec), nil
	case truncated && spec.Input.Kind == flowgraph.ExprNode:
		return partOf(read.nodes[spec.Input.Node], codec), nil
	case truncated:
		return &fabrictype.Value{Codec: codec, Size: -1, Truncated: true}, nil
	}
	if spec.Input.Chooses() {
		if n.StartedAt.IsZero() {
			return nil, nil // its join has not chosen its input yet
		}
		var err error
		var whole bool
		if results, whole, err = r.chosenInputs(ctx, enginecore.ExecutionID(n.ExecutionID)); err != nil {
			return nil, err
		}
		if !whole {
			return &fabrictype.Value{Codec: codec, Size: -1, Truncated: true}, nil
		}
	}
	input, err := spec.Input.Resolve(read.input.Part, results)
	if err != nil {
		return nil, nil // a part of it is missing
	}
	return newValue(codec, len(input), input[:min(len(input), limit)]), nil
}

// chosenInputs reads the results that a join has given to its node. It reports false if they have more than
// describe.MaxSumBytes.
func (r *RunRef) chosenInputs(
	ctx context.Context, id enginecore.ExecutionID,
) (results map[string][]byte, whole bool, err error) {
	bytes := 0
	results = make(map[string][]byte)
	call := enginerpc.ReadInputsCall{Partition: r.partition, ExecutionID: id}
	for {
		reply, err := r.client.session.Backend.ReadInputs(ctx, call)
		if err != nil {
			return nil, false, err
		}
		for _, in := range reply.Inputs {
			results[in.Name] = in.Result
			bytes += len(in.Result)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" || bytes > describe.MaxSumBytes {
			return results, call.Cursor == "", nil
		}
	}
}

// partOf returns a value as it was read; nil when there is none.
func partOf(v enginerpc.ReadValue, codec string) *fabrictype.Value {
	if !v.Has {
		return nil
	}
	return newValue(codec, int(v.Size), v.Part)
}

// newValue returns a value of size bytes, of which data is the whole or the beginning.
func newValue(codec string, size int, data []byte) *fabrictype.Value {
	v := &fabrictype.Value{Codec: codec, Size: size, Truncated: size > len(data)}
	switch {
	case codec != jsonCodec:
		v.Data = data
	case !v.Truncated && isJSON(data):
		v.JSON = data
	default:
		v.Text = string(data)
	}
	return v
}

// isJSON reports whether data can be part of a JSON text as it is. Readers would change invalid UTF-8.
func isJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }

// jsonCodec is the name of the codec of flows and activities that have no other one.
const jsonCodec = "json"

// codecName returns the name of a codec as a graph has it.
func codecName(stored string) string { return cmp.Or(stored, jsonCodec) }

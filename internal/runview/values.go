package runview

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// cut leaves the nodes of a page, where the engine has given all of them.
func (d *Description) cut(q Request) {
	if !q.Paged || len(d.Nodes) <= q.Nodes {
		return
	}
	from, _ := strconv.Atoi(q.Cursor)
	to := min(from+q.Nodes, len(d.Nodes))
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
func (r *Reader) readValues(
	ctx context.Context, d *Description, names []string, limit, most int,
) (read readValues, err error) {
	read.nodes = make(map[string]enginerpc.ReadValue, len(names))
	call := enginerpc.ReadValuesCall{Partition: r.Run.Partition, FlowID: r.Run.FlowID, MaxBytes: int64(limit)}
	for len(names) > 0 && read.bytes <= most {
		page := names[:min(len(names), valuesPerCall)]
		call.Executions = make([]enginecore.ExecutionID, len(page))
		for i, name := range page {
			call.Executions[i] = r.nodeID(d, name)
		}
		reply, err := r.Session.Backend.ReadValues(ctx, call)
		if err != nil {
			return read, err
		}
		read.input = beginning(
			enginerpc.ReadValue{Has: reply.HasInput, Size: reply.InputSize, Part: reply.Input}, limit)
		for i, value := range reply.Executions {
			value = beginning(value, limit)
			read.nodes[page[i]] = value
			read.bytes += len(value.Part)
		}
		names = names[max(1, len(reply.Executions)):]
	}
	return read, nil
}

// beginning cuts a value that came whole, since the engine keeps it in another form.
func beginning(v enginerpc.ReadValue, limit int) enginerpc.ReadValue {
	if v.Size < 0 {
		v.Size = int64(len(v.Part))
		v.Part = v.Part[:min(len(v.Part), limit)]
	}
	return v
}

// nodeID returns the id of the execution of a node that the graph of the run has.
func (r *Reader) nodeID(d *Description, name string) enginecore.ExecutionID {
	if !r.Session.IsWhole() {
		return keyspace.ExecutionIDFor(r.Run.Partition, r.Run.FlowID, name)
	}
	return keyspace.NodeExecutionID(r.Run.Partition, r.Run.FlowID, d.Places[name]+1)
}

// addValues adds the values of the run and of the nodes that d describes, q.ValueBytes of each. It returns how many of
// the nodes have them: with q.Paged, those whose values have describe.MaxSumBytes together, at least one; otherwise
// all, of which the values of the last ones are truncated.
func (r *Reader) addValues(ctx context.Context, d *Description, q Request) (fit int, err error) {
	if d.Graph == nil {
		return len(d.Nodes), nil
	}
	if len(d.Nodes) > describe.MaxPage {
		return 0, engine.Invalid("WithValues of %d nodes: at most %d are allowed: use WithPage", len(d.Nodes),
			describe.MaxPage)
	}
	read, err := r.readValues(ctx, d, d.valuesNeeded(), q.ValueBytes, describe.MaxSumBytes)
	if err != nil {
		return 0, err
	}
	codec := describe.Codec(d.Graph.Codec)
	d.Input = partOf(read.input, codec)
	if d.Graph.Return != "" && d.State == fabrictype.RunSucceeded {
		d.Result = partOf(read.nodes[d.Graph.Return], codec)
	}
	bytes := dataSize(d.Input) + dataSize(d.Result)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		spec := d.Node(n.Name)
		if spec == nil {
			continue
		}
		full := !read.has(n.Name) || !read.has(d.known(spec.Input.InputNodes())...)
		limit := q.ValueBytes
		if i > 0 {
			limit = min(limit, describe.MaxSumBytes-bytes)
		}
		if err := r.addNodeValues(ctx, n, spec, read, full, limit); err != nil {
			return 0, err
		}
		bytes += dataSize(n.Input) + dataSize(n.Result)
		if i > 0 && q.Paged && (full || bytes >= describe.MaxSumBytes) {
			return i, nil
		}
	}
	return len(d.Nodes), nil
}

// addNodeValues adds the values of one node, limit bytes of each. With full, not all that they need was read.
func (r *Reader) addNodeValues(
	ctx context.Context, n *fabrictype.Node, spec *flowgraph.Node, read readValues, full bool, limit int,
) (err error) {
	limit = max(0, limit)
	codec := describe.Codec(spec.Codec)
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
	return describe.Value(v.Codec, v.Size, v.Bytes()[:limit:limit])
}

// known returns the names that the graph of the run has.
func (d *Description) known(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, known := d.Places[name]; return !known })
}

// takeValues takes the values of another description of the same run, of the nodes that d has.
func (d *Description) takeValues(from *Description) {
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
func (d *Description) valuesNeeded() []string {
	var names []string
	seen := make(map[string]bool)
	add := func(name string) {
		if _, known := d.Places[name]; known && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	add(d.Graph.Return)
	for _, n := range d.Nodes {
		add(n.Name)
		if spec := d.Node(n.Name); spec != nil {
			for _, name := range spec.Input.InputNodes() {
				add(name)
			}
		}
	}
	return names
}

// inputOf composes the input of a node as its worker does.
func (r *Reader) inputOf(
	ctx context.Context, n *fabrictype.Node, spec *flowgraph.Node, read readValues, limit int,
) (*fabrictype.Value, error) {
	if spec.Input.Kind == "" {
		return nil, nil
	}
	codec := describe.Codec(spec.Codec)
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
	if spec.Input.Chooses() || spec.Input.HasOrElse() {
		if n.StartedAt.IsZero() {
			return nil, nil // its join has not chosen its input yet, or a result may still come
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
	return describe.Value(codec, len(input), input[:min(len(input), limit)]), nil
}

// chosenInputs reads the results that a join has given to its node. It reports false if they have more than
// describe.MaxSumBytes.
func (r *Reader) chosenInputs(
	ctx context.Context, id enginecore.ExecutionID,
) (results map[string][]byte, whole bool, err error) {
	bytes := 0
	results = make(map[string][]byte)
	call := enginerpc.ReadInputsCall{Partition: r.Run.Partition, ExecutionID: id}
	for {
		reply, err := r.Session.Backend.ReadInputs(ctx, call)
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
	return describe.Value(codec, int(v.Size), v.Part)
}

// Results reads the input of the run, and the results of nodes.
func (r *Reader) Results(
	ctx context.Context, d *Description, names []string,
) (input []byte, results map[string][]byte, err error) {
	asked := names
	if len(asked) == 0 {
		asked = []string{d.Graph.Nodes[0].Name} // for the input
	}
	read, err := r.readValues(ctx, d, asked, submit.MaxResult, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	results = make(map[string][]byte, len(names))
	for _, name := range names {
		results[name] = read.nodes[name].Part
	}
	return read.input.Part, results, nil
}

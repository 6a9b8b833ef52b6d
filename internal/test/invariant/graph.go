package invariant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Graphs are stored in chunks of this number of nodes (see lua/composite/rows/graph_store.lua).
const graphChunk = 32

// An edge in the lists of a node: the other node's ordinal and flags.
const edgeBytes = 3

const (
	edgeKindMask = 3
	edgeCarries  = 4
	edgeFlags    = 8 // flags below are a kind and edgeCarries, others are of cases
)

var edgeKinds = []string{"success_only", "on_failure", "always", unlessFailed}

// graphFields are the fields of a node in a chunk, in order.
var graphFields = []string{
	"name", "kind", "lane_id", "priority", "uses_flow_input", "input_count", "capabilities", "policy", "tags", "start_timeout",
	"attempt_timeout", "delay", "wait", "join", "ups", "downs", "limits",
}

// graph is the part that all runs of a graph in a partition share.
type graph struct {
	key    string
	hash   map[string]string
	nodes  []graphNode
	faults []string
}

// graphNode is a node of a graph by its fields.
type graphNode struct {
	fields     map[string]string
	ups, downs []graphEdge
}

// graphEdge is one end of an edge: the node at the other one.
type graphEdge struct {
	ordinal int
	kind    string
	carries bool
}

func (n *graphNode) get(field string) string { return n.fields[field] }

// node is a node by its ordinal, nil when the graph does not have it.
func (g *graph) node(ordinal int) *graphNode {
	if g == nil || ordinal < 1 || ordinal > len(g.nodes) {
		return nil
	}
	return &g.nodes[ordinal-1]
}

func (g *graph) complete() bool { return g.hash["complete"] != "" }

func newGraph(key string, hash map[string]string) *graph {
	g := &graph{key: key, hash: hash}
	for i := 1; ; i++ {
		chunk, found := hash["n"+strconv.Itoa(i)]
		if !found {
			break
		}
		if err := g.addChunk(chunk); err != nil {
			g.faults = append(g.faults, fmt.Sprintf("chunk %d: %v", i, err))
			break
		}
	}
	if want := number(hash["nodes"]); g.complete() && want != len(g.nodes) {
		g.faults = append(g.faults, fmt.Sprintf("nodes is %d, it has %d", want, len(g.nodes)))
	}
	return g
}

func (g *graph) addChunk(chunk string) error {
	r := &packed{rest: []byte(chunk)}
	v, err := r.value()
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok || len(list) > graphChunk {
		return fmt.Errorf("is not a list of at most %d nodes", graphChunk)
	}
	for _, item := range list {
		values, ok := item.([]any)
		if !ok || len(values) != len(graphFields) {
			return fmt.Errorf("a node is not a list of %d fields", len(graphFields))
		}
		n := graphNode{fields: make(map[string]string, len(values))}
		for i, field := range graphFields {
			n.fields[field] = fmt.Sprint(values[i])
		}
		n.ups, n.downs = readEdges(n.fields["ups"]), readEdges(n.fields["downs"])
		g.nodes = append(g.nodes, n)
	}
	return nil
}

func readEdges(text string) []graphEdge {
	edges := make([]graphEdge, 0, len(text)/edgeBytes)
	for ; len(text) >= edgeBytes; text = text[edgeBytes:] {
		e := graphEdge{ordinal: int(text[0]) | int(text[1])<<8, carries: text[2]&edgeCarries != 0}
		if text[2] < edgeFlags {
			e.kind = edgeKinds[text[2]&edgeKindMask]
		} else {
			e.kind = kindOfCase(text[2])
		}
		edges = append(edges, e)
	}
	return edges
}

// packed reads the part of MessagePack that graphs are written in: lists, texts and numbers.
type packed struct{ rest []byte }

var errPacked = errors.New("is not to be read as MessagePack")

func (p *packed) take(n int) ([]byte, error) {
	if n > len(p.rest) {
		return nil, errPacked
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b, nil
}

// size reads a number of the given width in bytes.
func (p *packed) size(bytes int) (int, error) {
	b, err := p.take(bytes)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range b {
		n = n<<8 | int(c)
	}
	return n, nil
}

func (p *packed) text(n int) (any, error) {
	b, err := p.take(n)
	return string(b), err
}

func (p *packed) list(n int) (any, error) {
	items := make([]any, 0, min(n, len(p.rest)))
	for range n {
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (p *packed) value() (any, error) {
	b, err := p.take(1)
	if err != nil {
		return nil, err
	}
	switch c := b[0]; {
	case c <= 0x7f:
		return int(c), nil
	case c >= 0xe0:
		return int(int8(c)), nil
	case c&0xf0 == 0x90:
		return p.list(int(c & 0x0f))
	case c&0xe0 == 0xa0:
		return p.text(int(c & 0x1f))
	case c == 0xc0:
		return "", nil
	case c == 0xc2, c == 0xc3:
		return c == 0xc3, nil
	case c >= 0xc4 && c <= 0xc6: // bin
		return p.sized(1<<(c-0xc4), p.text)
	case c >= 0xd9 && c <= 0xdb: // str
		return p.sized(1<<(c-0xd9), p.text)
	case c == 0xdc, c == 0xdd: // array
		return p.sized(2<<(c-0xdc), p.list)
	case c >= 0xcc && c <= 0xcf: // unsigned
		return p.sized(1<<(c-0xcc), func(n int) (any, error) { return n, nil })
	case c == 0xcb:
		b, err := p.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	}
	return nil, errPacked
}

// sized reads a number of the given width, and then the data of that size.
func (p *packed) sized(bytes int, read func(n int) (any, error)) (any, error) {
	n, err := p.size(bytes)
	if err != nil {
		return nil, err
	}
	return read(n)
}

package rowread

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// chunk is how many nodes of a graph are stored together.
const chunk = 32

// nodeFields are the fields of a node in the order in which a graph stores them, by their names in records.
var nodeFields = []string{
	"node", "execution_kind", "lane_id", "priority", "uses_flow_input", "input_count", "required_capabilities", "policy", "tags",
	"start_timeout", "attempt_timeout", "delay", "wait_spec", "join", "ups", "downs", "limits",
}

// Node returns the data of a node from the hash of a graph: its non-empty fields by their names in records, and policy,
// tags, delay, join, ups and downs.
func Node(graph map[string]string, ordinal int) (map[string]string, error) {
	nodes, err := unpackChunk(graph["n"+strconv.Itoa((ordinal-1)/chunk+1)])
	if err != nil {
		return nil, err
	}
	at := (ordinal - 1) % chunk
	if at >= len(nodes) {
		return nil, fmt.Errorf("the graph has no node %d", ordinal)
	}
	out := make(map[string]string, len(nodeFields))
	for i, value := range nodes[at] {
		if value != "" && i < len(nodeFields) {
			out[nodeFields[i]] = value
		}
	}
	if out["lane_id"] != "" {
		out["current_lane"] = out["lane_id"]
	}
	if out["wait_spec"] != "" {
		out["wait"] = "1"
	}
	return out, nil
}

// unpackChunk reads a MessagePack array of arrays of texts and numbers, which are given as texts.
func unpackChunk(packed string) ([][]string, error) {
	r := reader{rest: []byte(packed)}
	nodes := make([][]string, r.array())
	for i := range nodes {
		nodes[i] = make([]string, r.array())
		for j := range nodes[i] {
			nodes[i][j] = r.scalar()
		}
	}
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.rest))
	}
	if r.err != nil {
		return nil, fmt.Errorf("nodes of a graph: %w", r.err)
	}
	return nodes, nil
}

// reader reads MessagePack. Its first error stays.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = fmt.Errorf("cut off")
	}
	if r.err != nil {
		return make([]byte, min(n, 8))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) uint(bytes int) uint64 {
	var wide [8]byte
	copy(wide[8-bytes:], r.take(bytes))
	return binary.BigEndian.Uint64(wide[:])
}

func (r *reader) array() int {
	switch kind := r.take(1)[0]; {
	case kind&0xf0 == 0x90:
		return int(kind & 0x0f)
	case kind == 0xdc:
		return int(r.uint(2))
	default:
		if r.err == nil {
			r.err = fmt.Errorf("%#x is not an array", kind)
		}
		return 0
	}
}

func (r *reader) scalar() string {
	kind := r.take(1)[0]
	switch {
	case kind&0xe0 == 0xa0:
		return string(r.take(int(kind & 0x1f)))
	case kind >= 0xd9 && kind <= 0xdb:
		return string(r.take(int(r.uint(1 << (kind - 0xd9)))))
	case kind < 0x80:
		return strconv.Itoa(int(kind))
	case kind >= 0xe0:
		return strconv.Itoa(int(int8(kind)))
	case kind >= 0xcc && kind <= 0xcf:
		return strconv.FormatUint(r.uint(1<<(kind-0xcc)), 10)
	case kind >= 0xd0 && kind <= 0xd3:
		unused := 64 - 8<<(kind-0xd0) // bits above the number
		return strconv.FormatInt(int64(r.uint(1<<(kind-0xd0))<<unused)>>unused, 10)
	case kind == 0xcb:
		return strconv.FormatFloat(math.Float64frombits(r.uint(8)), 'f', -1, 64)
	case kind == 0xca:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(r.uint(4)))), 'f', -1, 64)
	}
	if r.err == nil {
		r.err = fmt.Errorf("%#x is neither a text nor a number", kind)
	}
	return ""
}

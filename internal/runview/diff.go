package runview

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// diffValueBytes is how much of each value is read and compared.
const diffValueBytes = 64 << 10

// Diff compares two runs in their present states. Of each value it reads 64 KiB.
func Diff(ctx context.Context, a, b *Reader) (*fabrictype.RunDiff, error) {
	first, err := a.describeWhole(ctx)
	if err != nil {
		return nil, err
	}
	second, err := b.describeWhole(ctx)
	if err != nil {
		return nil, err
	}
	return diffOf(first, second), nil
}

// comparedRun is a run with the data of some results of its nodes.
type comparedRun struct {
	*Description
	// results are digests of the results of nodes, by name.
	results map[string]valueDigest
}

// valueDigest represents a value in a comparison.
type valueDigest struct {
	has, truncated bool
	size           int
	codec          string
	// text is the digest of the bytes that were read; meaning is the digest of their JSON with sorted keys, if they are
	// JSON.
	text, meaning [sha256.Size]byte
	isJSON        bool
}

func valueDigestOf(v *fabrictype.Value) valueDigest {
	if v == nil {
		return valueDigest{}
	}
	d := valueDigest{has: true, truncated: v.Truncated, size: v.Size, codec: v.Codec, text: sha256.Sum256(v.Bytes())}
	var decoded any
	if v.JSON != nil && json.Unmarshal(v.JSON, &decoded) == nil {
		if sorted, err := json.Marshal(decoded); err == nil {
			d.meaning, d.isJSON = sha256.Sum256(sorted), true
		}
	}
	return d
}

// differs reports whether two values differ, as far as they were read. The text of JSON does not matter.
func (d valueDigest) differs(other valueDigest) bool {
	switch {
	case !d.has || !other.has:
		return d.has != other.has
	case d.codec == other.codec && d.size == other.size && d.text == other.text:
		return false
	}
	return d.truncated || other.truncated || !d.isJSON || !other.isJSON || d.meaning != other.meaning
}

// describeWhole describes a run page by page. Of the results of nodes it keeps half of describe.MaxSumBytes, and
// digests of all.
func (r *Reader) describeWhole(ctx context.Context) (*comparedRun, error) {
	var whole *comparedRun
	left := describe.MaxSumBytes / 2
	for cursor := ""; ; {
		page, err := r.Describe(ctx, Request{
			Paged: true, Cursor: cursor, Nodes: describe.MaxPage, Values: true, ValueBytes: diffValueBytes,
		})
		if err != nil {
			return nil, err
		}
		if whole == nil {
			first := *page
			first.Nodes = nil
			whole = &comparedRun{&first, make(map[string]valueDigest)}
		}
		for _, n := range page.Nodes {
			whole.results[n.Name] = valueDigestOf(n.Result)
			if n.Input = nil; dataSize(n.Result) > left {
				n.Result = withoutData(n.Result)
			}
			left -= dataSize(n.Result)
			whole.Nodes = append(whole.Nodes, n)
		}
		if cursor = page.Next; cursor == "" {
			return whole, nil
		}
	}
}

// withoutData returns the value as one of which nothing was read.
func withoutData(v *fabrictype.Value) *fabrictype.Value {
	if v == nil {
		return nil
	}
	return &fabrictype.Value{Codec: v.Codec, Size: v.Size, Truncated: true}
}

func diffOf(a, b *comparedRun) *fabrictype.RunDiff {
	d := &fabrictype.RunDiff{
		A: sideOf(a.Description), B: sideOf(b.Description), Nodes: []fabrictype.NodeDiff{},
	}
	d.Input = valueDigestOf(d.A.Input).differs(valueDigestOf(d.B.Input))
	d.Result = valueDigestOf(d.A.Result).differs(valueDigestOf(d.B.Result))
	others := make(map[string]*fabrictype.Node, len(b.Nodes))
	for i := range b.Nodes {
		others[b.Nodes[i].Name] = &b.Nodes[i]
	}
	for i := range a.Nodes {
		name := a.Nodes[i].Name
		n := diffNode(name, &a.Nodes[i], others[name], a.Node(name), b.Node(name))
		if n.A != nil && n.B != nil && a.results[name].differs(b.results[name]) {
			n.Differs = append(n.Differs, "result")
		}
		d.Nodes = append(d.Nodes, n)
		delete(others, name)
	}
	for i := range b.Nodes {
		if name := b.Nodes[i].Name; others[name] != nil {
			d.Nodes = append(d.Nodes, diffNode(name, nil, &b.Nodes[i], nil, b.Node(name)))
		}
	}
	if a.Graph != nil && b.Graph != nil {
		d.Graph = a.Graph.Hash() != b.Graph.Hash()
	}
	return d
}

func sideOf(d *Description) fabrictype.RunSide {
	return fabrictype.RunSide{
		Flow: d.Flow, Run: d.Run, State: d.State, Input: d.Input, Result: d.Result, ForkedFrom: d.ForkedFrom,
		Took: between(d.BeganAt, d.ClosedAt),
	}
}

// between returns the time from one moment to another; zero without one of them.
func between(from, to time.Time) fabrictype.Duration {
	if from.IsZero() || to.IsZero() {
		return fabrictype.Duration{}
	}
	return fabrictype.Duration{Duration: to.Sub(from)}
}

func diffNode(name string, a, b *fabrictype.Node, was, is *flowgraph.Node) fabrictype.NodeDiff {
	d := fabrictype.NodeDiff{Name: name, A: nodeSide(a), B: nodeSide(b)}
	if a == nil || b == nil {
		return d
	}
	if was != nil && is != nil {
		d.Differs = declarationDiff(was, is)
	}
	if a.State != b.State {
		d.Differs = append(d.Differs, "state")
	}
	if a.Reason != b.Reason {
		d.Differs = append(d.Differs, "reason")
	}
	return d
}

func nodeSide(n *fabrictype.Node) *fabrictype.NodeSide {
	if n == nil {
		return nil
	}
	return &fabrictype.NodeSide{
		State: n.State, Attempts: n.Attempts, Took: between(n.StartedAt, n.CompletedAt), Result: n.Result,
		Reason: n.Reason,
	}
}

// declarationDiff names the differences between two declarations of a node.
func declarationDiff(a, b *flowgraph.Node) []string {
	var differs []string
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"activity", a.Activity, b.Activity},
		{"kind", [3]any{a.Map, subHash(a), a.Wait}, [3]any{b.Map, subHash(b), b.Wait}},
		{"input", a.Input, b.Input},
		{"upstreams", a.Upstreams, b.Upstreams},
		{"join", a.Join, b.Join},
		{"options", [3]any{a.Options, a.Tags, a.Codec}, [3]any{b.Options, b.Tags, b.Codec}},
	} {
		if !reflect.DeepEqual(part.a, part.b) {
			differs = append(differs, part.name)
		}
	}
	return differs
}

func subHash(n *flowgraph.Node) string {
	if n.Sub == nil {
		return ""
	}
	return n.Sub.Hash()
}

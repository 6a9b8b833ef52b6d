package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Flows returns the published flows of the session's namespace, sorted by name. In contract mode the error is
// [engine.ErrNotInContract].
func Flows(ctx context.Context, s *engine.Session) ([]fabrictype.Flow, error) {
	found := make(map[string]fabrictype.Flow)
	err := each(ctx, s, func(f enginerpc.PublishedFlow) {
		entry := flowOf(f.FlowName, f.GraphHash, f.About)
		entry.PublishedAt, entry.PublishedBy = f.PublishedAt, f.PublishedBy
		found[f.FlowName] = entry
	})
	if err != nil {
		return nil, err
	}
	list := make([]fabrictype.Flow, 0, len(found))
	for _, f := range found {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b fabrictype.Flow) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Limits returns the limits without keys that published flows declare, by name. If flows declare one with different
// numbers, the flow that was published last counts. There are none in contract mode.
func Limits(ctx context.Context, s *engine.Session) (map[string]fabrictype.Limit, error) {
	if !s.IsWhole() {
		return nil, nil
	}
	list, last := make(map[string]fabrictype.Limit), make(map[string]time.Time)
	err := each(ctx, s, func(f enginerpc.PublishedFlow) {
		var about About
		_ = json.Unmarshal(f.About, &about) // fields of another version in another form are left out
		for _, l := range about.Limits {
			if _, known := list[l.Name]; known && f.PublishedAt.Before(last[l.Name]) {
				continue
			}
			per := fabrictype.Duration{Duration: time.Duration(l.PerMS) * time.Millisecond}
			list[l.Name] = fabrictype.Limit{Name: l.Name, AtMost: l.AtMost, Per: per, AtOnce: l.AtOnce}
			last[l.Name] = f.PublishedAt
		}
	})
	return list, err
}

// each calls read with all published flows, page by page. A flow may come twice.
func each(ctx context.Context, s *engine.Session, read func(enginerpc.PublishedFlow)) error {
	store, err := s.Library("the catalogue of flows")
	if err != nil {
		return err
	}
	call := enginerpc.ListPublishedCall{Partition: engine.Directory(), Namespace: string(s.Namespace)}
	for {
		reply, err := store.ListPublished(ctx, call)
		if err != nil {
			return err
		}
		for _, f := range reply.Flows {
			read(f)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// Describe returns a flow with its graph, schemas and the history of its hashes. The error matches
// enginecore.ErrFlowNotPublished for a flow that is not published.
func Describe(ctx context.Context, s *engine.Session, name string) (*fabrictype.FlowDetail, error) {
	reply, err := read(ctx, s, name, "")
	if err != nil {
		return nil, err
	}
	d := &fabrictype.FlowDetail{
		Flow: flowOf(name, reply.GraphHash, reply.About), Definition: reply.Definition,
		InputSchema: schemaText(reply.InputSchema), ResultSchema: schemaText(reply.ResultSchema),
		History: make([]fabrictype.FlowVersion, len(reply.History)),
	}
	d.PublishedAt, d.PublishedBy = reply.PublishedAt, reply.PublishedBy
	for i, v := range reply.History {
		d.History[i] = fabrictype.FlowVersion{Hash: v.GraphHash, PublishedAt: v.PublishedAt, PublishedBy: v.PublishedBy}
	}
	return d, nil
}

// schemaText is a stored schema; nil for one that was left out.
func schemaText(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return nil
	}
	return stored
}

func flowOf(name, hash string, text []byte) fabrictype.Flow {
	var about About
	_ = json.Unmarshal(text, &about) // fields of another version in another form are left out
	return fabrictype.Flow{
		Name: name, Hash: hash, Doc: about.Doc, Codec: about.Codec, InputType: about.InputType,
		ResultType: about.ResultType, Nodes: about.Nodes,
	}
}

// read reads a flow. Unless digest is empty, it reads the flow only if it has another digest.
func read(ctx context.Context, s *engine.Session, name, digest string) (enginerpc.ReadPublishedReply, error) {
	store, err := s.Library("the catalogue of flows")
	if err != nil {
		return enginerpc.ReadPublishedReply{}, err
	}
	reply, err := store.ReadPublished(ctx, enginerpc.ReadPublishedCall{
		Partition: engine.Directory(), Namespace: string(s.Namespace), FlowName: name, KnownDigest: digest,
	})
	if errors.Is(err, enginecore.ErrFlowNotPublished) {
		err = engine.Reworded(err, "the flow is not published")
	}
	return reply, err
}

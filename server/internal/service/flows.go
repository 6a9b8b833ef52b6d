package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// ListFlows implements httpapi.ListFlows.
func (s *Service) ListFlows(ctx context.Context, _ *httpapi.Empty) (*fabrictype.Page[fabrictype.Flow], error) {
	flows, err := s.client.Flows(ctx)
	if err != nil {
		return nil, err
	}
	flows = visible(ctx, flows, func(f fabrictype.Flow) string { return f.Name })
	return whole(flows), nil
}

// GetFlow implements httpapi.GetFlow.
func (s *Service) GetFlow(ctx context.Context, in *httpapi.FlowInput) (*fabrictype.FlowDetail, error) {
	d, err := s.client.Flow(in.Flow).Describe(ctx)
	if err != nil {
		return nil, err
	}
	if login.From(ctx).May(api.ReadPayloads) {
		return &d.FlowDetail, nil
	}
	if d.Definition, err = withoutConstants(d.Definition); err != nil {
		return nil, fmt.Errorf("definition of flow %q: %w", in.Flow, err)
	}
	return &d.FlowDetail, nil
}

// GetFlowGraph implements httpapi.GetFlowGraph.
func (s *Service) GetFlowGraph(ctx context.Context, in *httpapi.GetFlowGraphInput) (*httpapi.Drawing, error) {
	d, err := s.client.Flow(in.Flow).Describe(ctx)
	if err != nil {
		return nil, err
	}
	return drawing(in.Format, d), nil
}

// WithdrawFlow implements httpapi.WithdrawFlow.
func (s *Service) WithdrawFlow(ctx context.Context, in *httpapi.FlowInput) (*httpapi.Empty, error) {
	return done(s.as(ctx).Flow(in.Flow).Withdraw(ctx))
}

// withoutConstants returns the stored form of a graph without the values of its constants, which are null, or empty for
// another codec than JSON: they are inputs of nodes.
func withoutConstants(definition json.RawMessage) (json.RawMessage, error) {
	var graph any
	decoder := json.NewDecoder(bytes.NewReader(definition))
	decoder.UseNumber()
	if err := decoder.Decode(&graph); err != nil {
		return nil, err
	}
	hideInputs(graph)
	return json.Marshal(graph)
}

// hideInputs removes the constants of the inputs of all nodes of a graph, and of the graphs within it.
func hideInputs(part any) {
	switch part := part.(type) {
	case []any:
		for _, element := range part {
			hideInputs(element)
		}
	case map[string]any:
		for name, field := range part {
			switch name {
			case "input":
				hideConstants(field)
			case "wait": // texts and schemas
			default:
				hideInputs(field)
			}
		}
	}
}

// hideConstants removes the constants of the input of a node.
func hideConstants(input any) {
	fields, _ := input.(map[string]any)
	for name, field := range fields {
		switch name {
		case "const":
			fields[name] = nil
		case "data": // of another codec than JSON, in base64
			fields[name] = ""
		case "list":
			elements, _ := field.([]any)
			for _, element := range elements {
				hideConstants(element)
			}
		case "struct":
			parts, _ := field.(map[string]any)
			for _, part := range parts {
				hideConstants(part)
			}
		}
	}
}

package service

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// GetNode implements httpapi.GetNode.
func (s *Service) GetNode(ctx context.Context, in *httpapi.GetNodeInput) (*fabrictype.Node, error) {
	var options runtime.DescribeOptions
	if in.Values {
		if err := login.Need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
		options.Values, options.ValueBytes = true, describe.MaxSumBytes
	}
	n, err := s.run(ctx, in.RunName).DescribeNode(ctx, in.Node, options)
	if err != nil {
		return nil, err
	}
	hideChild(ctx, n)
	return n, nil
}

// ListItems implements httpapi.ListItems.
func (s *Service) ListItems(
	ctx context.Context, in *httpapi.ListItemsInput,
) (*fabrictype.Page[fabrictype.MapItem], error) {
	from, err := itemCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	out, bytes := &fabrictype.Page[fabrictype.MapItem]{Items: []fabrictype.MapItem{}}, 0
	for item, err := range s.run(ctx, in.RunName).Items(ctx, in.Node, from) {
		if err != nil {
			return nil, err
		}
		bytes += len(item.Result.Bytes())
		if len(out.Items) == in.Limit || len(out.Items) > 0 && bytes > describe.MaxSumBytes {
			out.Next = itemText(item.Index)
			break
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func itemText(index int) string { return strconv.Itoa(index) }

func itemCursor(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	index, err := strconv.Atoi(cursor)
	if err != nil || index < 0 {
		return 0, fmt.Errorf("%w: %.80q", runtime.ErrCursor, cursor)
	}
	return index, nil
}

// CancelNode implements httpapi.CancelNode.
func (s *Service) CancelNode(ctx context.Context, in *httpapi.NodeReasonInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).CancelNode(ctx, in.Node, in.Body.Reason))
}

// SetNodePriority implements httpapi.SetNodePriority.
func (s *Service) SetNodePriority(ctx context.Context, in *httpapi.NodePriorityInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).SetNodePriority(ctx, in.Node, in.Body.Priority))
}

package admin

import (
	"context"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// TagExecution adds tags to an execution in any phase, in one atomic step, replacing those with the same keys. The
// error wraps enginecore.ErrExecutionNotFound or enginecore.ErrInvalidTagKey.
func (c *Client) TagExecution(ctx context.Context, id enginecore.ExecutionID, tags map[string]string) error {
	if err := c.checkID(id); err != nil {
		return err
	}
	list, err := tagList(tags)
	if err == nil {
		err = c.audited(ctx, auditlink.SetTags, string(id), strings.Join(list, " "), func() error {
			_, err := c.core.SetExecutionTags(ctx, enginerpc.SetExecutionTagsCall{ExecutionID: id, Tags: list})
			return err
		})
	}
	return of(err, "tag", "execution", string(id))
}

// TagFlow adds tags to a flow in any state, in one atomic step, replacing those with the same keys. runtime.Client.Runs
// finds runs by them. The error wraps enginecore.ErrFlowNotFound or enginecore.ErrInvalidTagKey.
func (c *Client) TagFlow(ctx context.Context, id enginecore.FlowID, tags map[string]string) error {
	p, err := c.flowPartition(id)
	if err != nil {
		return err
	}
	list, err := tagList(tags)
	if err == nil {
		err = c.audited(ctx, auditlink.SetTags, string(id), strings.Join(list, " "), func() error {
			_, err := c.core.SetFlowTags(ctx, enginerpc.SetFlowTagsCall{Partition: p, FlowID: id, Tags: list})
			return err
		})
	}
	return of(err, "tag", "flow", string(id))
}

// checkTag refuses a tag that cannot be shown on a line. The form of keys is the engine's affair.
func checkTag(key, value string) error {
	if err := activityspec.CheckText(key); err != nil {
		return fault("tags", "key %.80q: %v", key, err)
	}
	if err := activityspec.CheckText(value); err != nil {
		return fault("tags", "value %.80q of %q: %v", value, key, err)
	}
	return nil
}

func tagList(tags map[string]string) ([]string, error) {
	if len(tags) == 0 {
		return nil, fault("tags", "there are none")
	}
	list := make([]string, 0, 2*len(tags))
	for key, value := range tags {
		if err := checkTag(key, value); err != nil {
			return nil, err
		}
		list = append(list, key, value)
	}
	return list, nil
}

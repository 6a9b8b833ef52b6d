package backend

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// keepDetails stores the details of a failure, which the contract has no field for, with the execution, before its
// attempt ends. They name the attempt, so that details of an earlier one do not count.
func (c *contract) keepDetails(ctx context.Context, call enginerpc.FailCall) error {
	if len(call.Details) == 0 {
		return nil
	}
	details := strconv.Itoa(int(call.AttemptIndex)) + ":" + string(call.Details)
	_, err := callAgain[enginerpc.SetExecutionTagsReply](ctx, c, enginerpc.SetExecutionTagsCall{
		ExecutionID: call.ExecutionID, Tags: []string{contractnode.TagDetails, details},
	})
	return err
}

// detailsOf returns the details of a node's failure from a tag; nil if they are of an earlier attempt.
func detailsOf(tag string, n *contractNode) []byte {
	attempt, details, found := strings.Cut(tag, ":")
	if !found || attempt != n.core["current_attempt_index"] || n.core["terminal_outcome"] != "failed" {
		return nil
	}
	return []byte(details)
}

// sinceFirstAttempt returns how long ago the first attempt of an execution began; 0 if that is not known.
func (c *contract) sinceFirstAttempt(ctx context.Context, id enginecore.ExecutionID) time.Duration {
	fields := []string{"started_at"}
	results, err := c.read(ctx, c.hmget(c.keys.ExecCore(id), fields))
	if err != nil {
		return 0
	}
	started := hashrecord.Read(results[0], fields).Time("started_at")
	if started.IsZero() {
		return 0
	}
	return c.now().Sub(started)
}

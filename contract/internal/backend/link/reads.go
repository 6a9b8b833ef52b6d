package link

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// ReadEach sends reads in one round trip. It fails only if the engine could not be reached or could not answer: each
// result may have its own error, such as a key of another type.
func (c *Link) ReadEach(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		if err := ReadFault(ctx, results[i]); retry.IsUnavailable(err) {
			return nil, err
		}
	}
	return results, nil
}

// ReadFault returns the error of one read; nil for a missing key.
func ReadFault(ctx context.Context, result rueidis.RedisResult) error {
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return engine.ReadError(ctx, "read", err)
	}
	return nil
}

// Readable reads fields of executions, in pages. It returns those that could be read with their fields; the error joins
// an engine.ItemError for each of the others, unless the engine could not be reached.
func (c *Link) Readable(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]enginecore.ExecutionID, []engine.Record, error) {
	var faults error
	some := make([]enginecore.ExecutionID, 0, len(ids))
	records := make([]engine.Record, 0, len(ids))
	for len(ids) > 0 {
		page := ids[:min(len(ids), Page)]
		ids = ids[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.Hmget(c.Keys.ExecCore(id), fields)
		}
		results, err := c.ReadEach(ctx, commands...)
		if err != nil {
			return nil, nil, err
		}
		for i, result := range results {
			if err := ReadFault(ctx, result); err != nil {
				faults = errors.Join(faults, &engine.ItemError{Item: string(page[i]), Err: err})
				continue
			}
			some, records = append(some, page[i]), append(records, hashrecord.Read(result, fields))
		}
	}
	return some, records, faults
}

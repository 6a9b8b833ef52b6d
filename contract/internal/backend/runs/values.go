package runs

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// valueFields are the fields of an execution that ReadValues needs.
var valueFields = []string{"public_state", "terminal_outcome"}

// ReadValues implements [engine.Backend]. The contract has no bounded read of a value, so each is read whole.
func (c *Runs) ReadValues(ctx context.Context, call enginerpc.ReadValuesCall) (enginerpc.ReadValuesReply, error) {
	reply := enginerpc.ReadValuesReply{Status: enginerpc.StatusOK}
	cores, err := c.ReadCores(ctx, call.Executions, valueFields)
	if err != nil {
		return reply, err
	}
	tags := c.Keys.FlowTags(call.Partition, call.FlowID)
	commands := rueidis.Commands{c.Client.B().Hget().Key(tags).Field(contractnode.TagInput).Build()}
	for _, id := range call.Executions {
		commands = append(commands, c.Client.B().Get().Key(c.Keys.ExecResult(id)).Build())
	}
	results, err := c.Read(ctx, commands...)
	if err != nil {
		return reply, err
	}
	part := func(result rueidis.RedisResult) enginerpc.ReadValue {
		value, err := result.AsBytes()
		if err != nil {
			return enginerpc.ReadValue{}
		}
		size := int64(len(value))
		return enginerpc.ReadValue{Has: true, Size: size, Part: value[:min(size, call.MaxBytes)]}
	}
	input := part(results[0])
	reply.HasInput, reply.InputSize, reply.Input = input.Has, input.Size, input.Part
	for i := range call.Executions {
		value := enginerpc.ReadValue{}
		if cores[i]["terminal_outcome"] == "success" {
			value = part(results[i+1])
			value.Has = true // the contract stores no result without bytes
		}
		value.State = cores[i]["public_state"]
		reply.Executions = append(reply.Executions, value)
	}
	return reply, nil
}

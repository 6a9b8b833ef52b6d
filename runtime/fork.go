package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// tagForkedFrom is the tag of forks, with the id of the run that they are of.
const tagForkedFrom = "flowfabric.forked_from"

// forkConfig is what the options of a fork say.
type forkConfig struct {
	from    []string
	input   *any
	results map[string]any
}

func (c *startConfig) forked() *forkConfig {
	if c.fork == nil {
		c.fork = &forkConfig{results: map[string]any{}}
	}
	return c.fork
}

// ForkFrom lets nodes of a fork run again, with everything downstream of them. It is an option of RunRef.Fork alone.
func ForkFrom(nodes ...string) StartOption {
	return startFunc(func(c *startConfig) { f := c.forked(); f.from = append(f.from, nodes...) })
}

// ForkInput gives a fork another input: the nodes that use it run again, with everything downstream of them. It is
// encoded as JSON, and held against the schema of the flow if this is published with the graph of the run; the error of
// Fork then wraps a *valuefault.Error. It is an option of RunRef.Fork alone.
func ForkInput(input any) StartOption {
	return startFunc(func(c *startConfig) { c.forked().input = &input })
}

// ForkResult gives a node of a fork a result, instead of that of the run, also if it has not succeeded there: what
// depends on it runs again. It is encoded as JSON. It is an option of RunRef.Fork alone.
func ForkResult(node string, result any) StartOption {
	return startFunc(func(c *startConfig) { c.forked().results[node] = result })
}

// Fork starts a run from this one, whatever state it is in: with its graph, its input and the results of its nodes that
// have succeeded, which therefore do not run. The nodes that run are those that ForkFrom, ForkInput and ForkResult
// select, those that had not succeeded, what depends on them, and nodes with flow.Finally. The run itself is not
// changed, so that both can be compared with DiffRuns.
//
// The fork is a run of its own with a new id, or that of WithID; a repeat with the same id, options and results returns
// the same run. It has the tags of its flow and those of the options, and counts for budgets and limits by what it
// runs. A node that it keeps has no attempts. RunDescription.ForkedFrom and RunRef.Forks tell of each other.
//
// The call reads the run, with the results that are kept, and starts the fork in one atomic step. The error wraps
// ErrRunNotFound, ErrUnknownNode, ErrNothingToRerun when nothing would run, ErrTooLarge for more than 256 nodes or 8
// MiB of results that are kept, ErrInvalid for options that cannot be, or for values where the codec is not JSON, or
// one of Start. In contract mode it wraps ErrNotInContract.
func (r *RunRef) Fork(ctx context.Context, opts ...StartOption) (*RunRef, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	plan, err := r.planFork(ctx, opts)
	if err == nil {
		_, err = r.client.submit(ctx, plan)
	}
	if err != nil {
		return nil, r.errorf("fork", err)
	}
	return r.client.refTo(plan), nil
}

func (r *RunRef) planFork(ctx context.Context, opts []StartOption) (*submit.RunPlan, error) {
	c := r.client
	if _, err := engine.Capability[engine.RunKeys](c.session.Backend); err != nil {
		return nil, err
	}
	config, err := c.startConfigOf(opts)
	if err != nil {
		return nil, err
	}
	fork := config.forked()
	if !config.startAt.IsZero() || config.arrival != nil {
		return nil, invalid("Fork cannot be combined with StartAt, WithKey and WithThrottle")
	}
	nodes, err := c.submitter.ReadNodes(ctx, r.flowID, r.partition)
	if err != nil {
		return nil, err
	}
	d, _, err := r.readDescription(ctx, describe.Request{Paged: true, Nodes: 1})
	if err != nil {
		return nil, err
	}
	if d.graph == nil {
		return nil, invalid("the run has no graph")
	}
	scope := submit.ForkScope{From: fork.from, NewInput: fork.input != nil, Results: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(fork.results)) {
		if spec := d.specs[name]; spec != nil && codecName(spec.Codec) != codecName("") {
			return nil, invalid("result of node %s: its codec is %q, not json", name, spec.Codec)
		}
		result, err := encodeFork("result of node "+name, fork.results[name], submit.MaxResult)
		if err != nil {
			return nil, err
		}
		scope.Results[name] = result
	}
	kept, err := nodes.KeptNodes(scope)
	if err != nil {
		return nil, err
	}
	input, results, err := r.readKept(ctx, d, kept)
	if err != nil {
		return nil, err
	}
	maps.Copy(results, scope.Results)
	if fork.input != nil {
		if codecName(d.graph.Codec) != codecName("") {
			return nil, invalid("input: the codec of the flow is %q, not json", d.graph.Codec)
		}
		if input, err = r.forkInput(ctx, d, *fork.input); err != nil {
			return nil, err
		}
	}
	return r.forkPlan(d, config, input, kept, results)
}

// forkInput encodes the new input of a fork, and holds it against the schema of the flow, as StartNamed does, where the
// flow is published with the graph of the run: another graph can take other inputs.
func (r *RunRef) forkInput(ctx context.Context, d *RunDescription, value any) ([]byte, error) {
	input, err := encodeFork("input", value, submit.MaxInput)
	if err != nil {
		return nil, err
	}
	published, err := r.client.namedFlow(ctx, r.flow)
	switch {
	case errors.Is(err, enginecore.ErrFlowNotPublished), errors.Is(err, ErrInvalid): // or has another codec by now
		return input, nil
	case err != nil:
		return nil, err
	case published.compiled.Hash != d.graph.Hash():
		return input, nil
	}
	return published.check(r.flow, input)
}

// forkPlan makes the plan of a fork by what was read of its run.
func (r *RunRef) forkPlan(
	d *RunDescription, config startConfig, input []byte, kept []string, results map[string][]byte,
) (*submit.RunPlan, error) {
	compiled, err := submit.CompileFlow(d.graph, d.graph.Hash())
	if err != nil {
		return nil, err
	}
	WithTag(tagForkedFrom, r.id).start(&config)
	config.fork = nil
	faults := []error{config.checkID()}
	tags, err := submit.TagsOf(compiled, config.tags)
	if err != nil {
		faults = append(faults, invalid("%w", err))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	plan, err := r.client.newPlan(compiled, config, tags, input)
	if err != nil {
		return nil, err
	}
	return plan, plan.Keep(r.id, kept, results)
}

// readKept reads the input of the run, and the results of nodes.
func (r *RunRef) readKept(
	ctx context.Context, d *RunDescription, names []string,
) (input []byte, results map[string][]byte, err error) {
	asked := names
	if len(asked) == 0 {
		asked = []string{d.graph.Nodes[0].Name} // for the input
	}
	read, err := r.readValues(ctx, d, asked, submit.MaxResult)
	if err != nil {
		return nil, nil, err
	}
	results = make(map[string][]byte, len(names))
	for _, name := range names {
		results[name] = read.nodes[name].Part
	}
	return read.input.Part, results, nil
}

func encodeFork(what string, value any, most int) ([]byte, error) {
	data, err := activity.JSON{}.Encode(value)
	if err != nil {
		return nil, invalid("%s of type %T does not encode: %w", what, value, err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrTooLarge, what, len(data), most)
	}
	return data, nil
}

// Forks yields the forks of the run, the newest first, as Client.Runs does.
func (r *RunRef) Forks(ctx context.Context) iter.Seq2[RunSummary, error] {
	if err := r.ready(ctx); err != nil {
		return func(yield func(RunSummary, error) bool) { yield(RunSummary{}, err) }
	}
	return r.client.Runs(ctx, RunQuery{Flow: r.flow, Tags: map[string]string{tagForkedFrom: r.id}})
}

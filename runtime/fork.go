package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/runview"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// tagForkedFrom is the tag of forks, with the id of the run that they are of.
const tagForkedFrom = "flowfabric.forked_from"

// ForkOptions select the nodes of a fork that run again; see RunRef.Fork.
type ForkOptions struct {
	// From are nodes that run again, with everything downstream of them.
	From []string
	// Input is another input of the fork: the nodes that use it run again, with everything downstream of them. It is
	// encoded as JSON. One that does not fit the schema of the flow is refused if the flow is published with the graph
	// of the run; one that does not decode into its Go type, if this client has the flow's definition, from Start or
	// Attach for example. The error of Fork wraps ErrInvalid, and with a schema a *fabrictype.ValueError. Defaults to
	// the input of the run; json.RawMessage("null") is a null.
	Input any
	// Results are results of nodes, by their names, instead of the results in the run, also if a node has not succeeded
	// there: their downstreams run again. They are encoded as JSON, and checked as Input is; the catalogue has the
	// schema of the node that the flow returns alone.
	Results map[string]any
}

// Fork starts a run from this one, whatever state it is in: with its graph, its input and the results of its nodes that
// have succeeded, which therefore do not run. The nodes that run are the nodes that the options
// select, nodes that had not succeeded, the downstreams of these, and nodes with flow.Finally. Nodes that were skipped
// stay skipped, unless the node that caused it runs again. The run itself is not changed, so that both can be compared
// with Diff.
//
// The fork is a separate run with a new id, or the id of WithID; a repeat with the same id, options and results returns
// the same run. It has the tags of its flow and the tags of the options, and counts for budgets and limits by the nodes
// that it runs. A node whose result it keeps has no attempts. RunDescription.ForkedFrom and RunRef.Forks refer to each
// other.
//
// The call reads the run, with the kept results, and starts the fork in one atomic step. The error wraps
// ErrNotFound for the run or a node, ErrNothingToRerun when nothing would run, ErrTooLarge for more than 256 nodes or 8
// MiB of kept results, ErrInvalid for invalid options, or for values where the codec is not JSON, or one of Start. In
// contract mode it wraps ErrNotInContract.
func (r *RunRef) Fork(ctx context.Context, fork ForkOptions, opts ...StartOption) (*RunRef, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	plan, err := r.planFork(ctx, &fork, opts)
	if err == nil {
		_, err = r.client.submit(ctx, plan)
	}
	if err != nil {
		return nil, r.errorf("fork", err)
	}
	ref := r.client.refTo(plan)
	return &ref, nil
}

func (r *RunRef) planFork(ctx context.Context, fork *ForkOptions, opts []StartOption) (*submit.RunPlan, error) {
	c := r.client
	if _, err := c.session.Library("forks of runs"); err != nil {
		return nil, err
	}
	config, err := c.startConfigOf(opts)
	if err != nil {
		return nil, err
	}
	if !config.StartAt.IsZero() || config.Key != nil || config.signal != nil {
		return nil, invalid("Fork cannot be combined with StartAt, WithSignal, WithKey, WithThrottle and WithDebounce")
	}
	nodes, err := c.submitter.ReadNodes(ctx, r.at.FlowID, r.at.Partition)
	if err != nil {
		return nil, err
	}
	d, err := r.reader().Open(ctx)
	if err != nil {
		return nil, err
	}
	if d.Graph == nil {
		return nil, invalid("the run has no graph")
	}
	values, err := r.forkValues(ctx, d.Graph, fork)
	if err != nil {
		return nil, err
	}
	scope := submit.ForkScope{From: fork.From, NewInput: fork.Input != nil, Results: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(fork.Results)) {
		if spec := d.Graph.Node(name); spec != nil && describe.Codec(spec.Codec) != describe.Codec("") {
			return nil, invalid("result of node %s: its codec is %q, not json", name, spec.Codec)
		}
		result, err := encodeFork("result of node "+name, fork.Results[name], submit.MaxResult)
		if err != nil {
			return nil, err
		}
		if err := values.checkResult(name, result); err != nil {
			return nil, err
		}
		scope.Results[name] = result
	}
	kept, skips, err := nodes.KeptNodes(scope)
	if err != nil {
		return nil, err
	}
	input, results, err := r.reader().Results(ctx, d, kept)
	if err != nil {
		return nil, err
	}
	maps.Copy(results, scope.Results)
	if fork.Input != nil {
		if describe.Codec(d.Graph.Codec) != describe.Codec("") {
			return nil, invalid("input: the codec of the flow is %q, not json", d.Graph.Codec)
		}
		if input, err = encodeFork("input", fork.Input, submit.MaxInput); err != nil {
			return nil, err
		}
		if input, err = values.checkInput(input); err != nil {
			return nil, err
		}
	}
	plan, err := r.forkPlan(d, config, input)
	if err != nil {
		return nil, err
	}
	return plan, plan.Keep(r.at.ID, kept, results, nodes.Reasons(skips))
}

// forkValues checks the values that a fork is given: by the schemas of the catalogue, or by the Go types of the flow's
// definition. Without either it accepts all.
type forkValues struct {
	graph     *flowgraph.Graph
	def       submit.Definition
	published *catalogue.Flow
}

// forkValues reads the schemas of the input and of the flow's result, if the fork has one of these.
func (r *RunRef) forkValues(ctx context.Context, graph *flowgraph.Graph, fork *ForkOptions) (*forkValues, error) {
	v := &forkValues{graph: graph, def: r.client.compiled.Definition(graph.Hash())}
	if _, returns := fork.Results[graph.Return]; fork.Input == nil && !returns {
		return v, nil
	}
	published, err := r.client.namedFlow(ctx, r.at.Flow)
	switch {
	case errors.Is(err, enginecore.ErrFlowNotPublished), errors.Is(err, ErrInvalid): // or has another codec by now
		return v, nil
	case err != nil:
		return nil, err
	case published.Compiled.Hash == graph.Hash(): // another graph can take other values
		v.published = published
	}
	return v, nil
}

// checkInput returns the input as it is stored.
func (v *forkValues) checkInput(input []byte) ([]byte, error) {
	if v.published != nil {
		return v.published.Check(v.graph.Name, input)
	}
	if v.def == nil {
		return input, nil
	}
	return input, decodesInto(fmt.Sprintf("input of flow %q", v.graph.Name), input, v.def.InputType())
}

func (v *forkValues) checkResult(node string, result []byte) error {
	what := fmt.Sprintf("result of node %q", node)
	if node == v.graph.Return && v.published != nil && v.published.Result != nil {
		if err := v.published.Result.Check(what, result); err != nil {
			return invalid("%w", err)
		}
	} else if v.def != nil {
		return decodesInto(what, result, v.def.ResultType(node))
	}
	return nil
}

// decodesInto returns an error if data does not decode into a type, with a field for each name. A nil type takes all.
func decodesInto(what string, data []byte, t reflect.Type) error {
	if t == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(reflect.New(t).Interface()); err != nil {
		return invalid("%s does not decode into %s: %w", what, t, err)
	}
	return nil
}

// forkPlan makes the plan of a fork from the description and the input of its run.
func (r *RunRef) forkPlan(d *runview.Description, config startConfig, input []byte) (*submit.RunPlan, error) {
	compiled, err := submit.CompileFlow(d.Graph, d.Graph.Hash())
	if err != nil {
		return nil, err
	}
	WithTag(tagForkedFrom, r.at.ID).start(&config)
	faults := []error{config.CheckID()}
	if err := config.ResolveTags(compiled); err != nil {
		faults = append(faults, invalid("%w", err))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r.client.submitter.Plan(compiled, &config.StartOptions, input)
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
func (r *RunRef) Forks(ctx context.Context) iter.Seq2[fabrictype.Run, error] {
	if err := r.ready(ctx); err != nil {
		return func(yield func(fabrictype.Run, error) bool) { yield(fabrictype.Run{}, err) }
	}
	return r.client.Runs(ctx, RunQuery{Flow: r.at.Flow, Tags: map[string]string{tagForkedFrom: r.at.ID}})
}

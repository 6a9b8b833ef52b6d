package runcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Check yields the problems of runs, in their order. The runs come from Open or Read, or are any descriptions with
// values (runtime.DescribeOptions); a run may be described in pages. An error of the source is yielded and ends the
// sequence.
func (p Program) Check(runs iter.Seq2[*runtime.RunDescription, error]) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		for d, err := range runs {
			if err != nil {
				yield(Problem{}, err)
				return
			}
			for _, problem := range p.problems(d) {
				if !yield(problem, nil) {
					return
				}
			}
		}
	}
}

// problems returns the problems of a run, or of a page of it.
func (p Program) problems(d *runtime.RunDescription) []Problem {
	c := checker{program: p, run: d}
	if f := p.flow(d.Flow); f != nil {
		codec := codecOf(f)
		c.value("", InputMismatch, d.Input, codec, f.InputType())
		c.value("", ResultMismatch, d.Result, codec, f.OutputType())
	}
	for i := range d.Nodes {
		c.node(&d.Nodes[i])
	}
	return c.found
}

// codecOf returns the codec of a definition, JSON if it has none.
func codecOf(definition any) activity.Codec {
	if f, ok := definition.(interface{ Codec() activity.Codec }); ok {
		return f.Codec()
	}
	return activity.JSON{}
}

// checker collects the problems of one run.
type checker struct {
	program Program
	run     *runtime.RunDescription
	found   []Problem
}

func (c *checker) add(node string, code Code, format string, args ...any) {
	c.found = append(c.found, Problem{
		Flow: c.run.Flow, Run: c.run.Run, Node: node, Code: code, Detail: fmt.Sprintf(format, args...),
	})
}

// node checks one node: whether it is served if it has not ended, and whether its values decode.
func (c *checker) node(n *fabrictype.Node) {
	if n.Activity == "" { // a waitpoint or a sub-flow
		return
	}
	a, missing, what := c.program.serves(n.Activity, n.Lane, n.Capabilities)
	if !n.State.Ended() {
		switch missing {
		case ActivityMissing:
			c.add(n.Name, missing, "no worker has the activity %q", n.Activity)
		case LaneUnserved:
			c.add(n.Name, missing, "no worker with the activity %q serves the lane %q", n.Activity, n.Lane)
		case CapabilityUnserved:
			c.add(n.Name, missing, "no worker with the activity %q on the lane %q has the capability %q", n.Activity,
				n.Lane, what)
		}
	}
	if a == nil {
		return
	}
	input, output := a.InputType(), a.OutputType()
	switch n.Kind {
	case fabrictype.KindMap:
		input, output = reflect.SliceOf(input), nil // the items have their results
	case fabrictype.KindLoop, fabrictype.KindExpansion:
		output = nil // it belongs to the child run
	case fabrictype.KindCondition:
		output = nil // it is a decision
		c.decision(n, a)
	}
	if !n.State.Ended() {
		c.value(n.Name, InputMismatch, n.Input, a.Codec(), input)
	}
	if output != nil {
		c.value(n.Name, ResultMismatch, n.Result, a.Codec(), output)
	}
}

// decision checks that a condition still has the case that it has decided for.
func (c *checker) decision(n *fabrictype.Node, a activity.Handler) {
	condition, ok := a.(interface{ HasCase(name string) bool })
	if !ok || n.Result == nil || n.Result.Truncated {
		return
	}
	var decided struct{ Case string }
	if err := json.Unmarshal(n.Result.Bytes(), &decided); err != nil {
		c.add(n.Name, ResultMismatch, "the stored decision does not decode: %s", err)
	} else if !condition.HasCase(decided.Case) {
		c.add(n.Name, ResultMismatch, "the condition %q has no case %q any more, which was decided", n.Activity,
			decided.Case)
	}
}

// value checks that a stored value decodes into a type. Values that are not whole are left out.
func (c *checker) value(node string, code Code, v *fabrictype.Value, codec activity.Codec, into reflect.Type) {
	if v == nil || v.Truncated {
		return
	}
	if v.Codec != codec.Name() {
		c.add(node, CodecChanged, "it was stored by the codec %q, the program has %q", v.Codec, codec.Name())
		return
	}
	if err := decode(codec, v.Bytes(), reflect.New(into).Interface()); err != nil {
		what := "input"
		if code == ResultMismatch {
			what = "result"
		}
		c.add(node, code, "the stored %s does not fit %s: %s", what, into, strings.TrimPrefix(err.Error(), "json: "))
	}
}

// decode decodes a value strictly, as far as its codec can.
func decode(codec activity.Codec, data []byte, target any) error {
	if _, isJSON := codec.(activity.JSON); !isJSON {
		return codec.Decode(data, target)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the value")
	}
	return nil
}

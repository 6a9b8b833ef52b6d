package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Pipeline collects calls and sends them in one go. The calls are independent: each is atomic by itself, they
// may go to different partitions, and each has its own result. A pipeline is for one goroutine and one use.
type Pipeline struct {
	conn  *Conn
	calls []pipelined
	sent  bool
	ctx   context.Context // of Run, which reads values with it
}

// pipelined is an added call without its reply type.
type pipelined struct {
	info   callInfo
	wire   *wire
	settle func(message, error)
}

// Result receives the reply of a pipelined call.
type Result[R any] struct {
	reply R
	err   error
}

// Get is the reply, or the error of this call. Before the pipeline was run it is an error.
func (r *Result[R]) Get() (R, error) { return r.reply, r.err }

var errNotRun = errors.New("the pipeline has not been run")

// Pipeline starts an empty pipeline.
func (conn *Conn) Pipeline() *Pipeline { return &Pipeline{conn: conn} }

// Add puts a call into a pipeline and returns its Result. A call that cannot be encoded is not sent; its error is in
// its result.
func Add[R any](p *Pipeline, c Call[R]) *Result[R] {
	result := &Result[R]{}
	info := c.info()
	if result.err = p.conn.permit(info.name); result.err != nil {
		return result
	}
	result.err = errNotRun
	w, err := encodeTo(&wire{keys: p.conn.keys, name: info.name, payloads: p.conn.payloads}, c)
	if err != nil {
		result.err = err
		return result
	}
	p.calls = append(p.calls, pipelined{info, w, func(m message, err error) {
		if err != nil {
			result.err = err
			return
		}
		result.reply, _, result.err = readAll(p.ctx, p.conn, info, m, c.decode, w.sent)
	}})
	return result
}

// Len is the number of calls that Run will send.
func (p *Pipeline) Len() int { return len(p.calls) }

// Run sends all calls and fills in their results. Its error joins the errors of the calls that failed. Calls
// that may be sent again are retried one by one as Do does. A second Run does nothing.
func (p *Pipeline) Run(ctx context.Context) error {
	if p.sent || len(p.calls) == 0 {
		return nil
	}
	p.sent, p.ctx = true, ctx
	conn := p.conn
	before, err := p.histories(ctx)
	if err != nil {
		for _, c := range p.calls {
			c.settle(message{}, named(c.info.name, err))
		}
		return err
	}
	commands := make(commands, 0, len(p.calls))
	for _, c := range p.calls {
		commands = c.wire.commands(commands, conn.client.B)
	}
	results := conn.client.DoMulti(ctx, commands...)
	errs := make([]error, len(p.calls))
	var again sync.WaitGroup
	limit := make(chan struct{}, maxPipelineRetries)
	for i, c := range p.calls {
		settle := func(m message, err error) {
			errs[i] = err
			c.settle(m, err)
		}
		m, err := answerOf(results[:len(c.wire.sent)+1])
		results = results[len(c.wire.sent)+1:]
		if err == nil && conn.waitsForReplicas(c.info, c.wire) {
			again.Go(func() { settle(conn.replication.confirm(ctx, c.info, c.wire, before[c.wire.tag], m)) })
			continue
		}
		if err == nil {
			settle(m, nil)
			continue
		}
		verdict, fault := judge(ctx, c.info, err)
		if verdict == giveUp {
			settle(m, named(c.info.name, fault))
			continue
		}
		again.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			m, err := conn.sendAfter(ctx, c.info, c.wire, fault)
			if err == nil && conn.waitsForReplicas(c.info, c.wire) {
				m, err = conn.replication.confirm(ctx, c.info, c.wire, before[c.wire.tag], m)
			}
			settle(m, err)
		})
	}
	again.Wait()
	return JoinSame("calls", errs)
}

// histories returns the histories of the partitions in which calls write that wait for replicas.
func (p *Pipeline) histories(ctx context.Context) (map[string]string, error) {
	var histories map[string]string
	for _, c := range p.calls {
		if !p.conn.waitsForReplicas(c.info, c.wire) || histories[c.wire.tag] != "" {
			continue
		}
		history, err := p.conn.replication.history(ctx, c.wire.tag)
		if err != nil {
			return nil, err
		}
		if histories == nil {
			histories = make(map[string]string)
		}
		histories[c.wire.tag] = history
	}
	return histories, nil
}

// maxPipelineRetries bounds how many calls of one pipeline are retried at a time.
const maxPipelineRetries = 16

// JoinSame joins the errors of the same call in different places. Its text has equal errors once, with their number
// and the plural of the place: "64 partitions: ...". It wraps all errors that are not nil, and is nil if all are.
func JoinSame(places string, errs []error) error {
	var faults []error
	for _, err := range errs {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if faults == nil {
		return nil
	}
	return &sameErrors{places, faults}
}

type sameErrors struct {
	places string
	errs   []error
}

// Error implements error.
func (e *sameErrors) Error() string {
	var texts []string
	count := make(map[string]int)
	for _, err := range e.errs {
		text := err.Error()
		if count[text]++; count[text] == 1 {
			texts = append(texts, text)
		}
	}
	for i, text := range texts {
		if n := count[text]; n > 1 {
			texts[i] = fmt.Sprintf("%d %s: %s", n, e.places, text)
		}
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors.
func (e *sameErrors) Unwrap() []error { return e.errs }

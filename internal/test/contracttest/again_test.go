package contracttest

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// againHazards concern executions that run again, or are let go again, and what a former life leaves behind.
var againHazards = []hazard{
	{"P1 a replayed member gets the results of upstreams that have succeeded meanwhile", func(t *testing.T, b *bench) {
		up := b.running()
		e := b.staged(up.id, b.create(func(c *enginerpc.CreateExecutionCall) { c.InputPayload = []byte("own") }))
		b.apply(e)
		b.fail(up, "")
		b.resolve(e, "failed")
		want(t, "state", b.core(e.down, "public_state"), "skipped")
		b.replay(up.id)
		b.complete(b.claim(up.id), "result")
		want(t, "open edges", b.replay(e.down).WaitingFor, 0)
		if b.nodes != nil {
			return // what nodes of runs take along is read with their claims
		}
		payload, err := b.do("GET", b.keys.ExecPayload(e.down)).ToString()
		if err != nil || payload != "result" {
			t.Errorf("payload %q, %v", payload, err)
		}
	}},
}

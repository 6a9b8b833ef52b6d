package enginerpc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// wire collects KEYS and ARGV of one call. The first fault is kept and stops the call before it is sent.
type wire struct {
	keys Keys
	name string
	// partitions is how many flow partitions the deployment has; 0 where that is not known.
	partitions int
	tag        string
	list       []string
	args       []string
	err        error
	payloads   *payload.Pipeline
	owner      string      // the id to which the sealed values that come next belong
	sent       []sentValue // values that are written before the call
	inline     bool        // values of any size are arguments
}

func (w *wire) fail(field, problem string) {
	if w.err == nil {
		w.err = &enginecore.CallError{Function: w.name, Field: field, Problem: problem}
	}
}

func (w *wire) reserve(keys, args int) {
	w.list = slices.Grow(w.list, keys)
	w.args = slices.Grow(w.args, args)
}

// partition takes the call's hash tag from a partition.
func (w *wire) partition(p keyspace.Partition, f keyspace.Family) {
	w.tag = p.Tag()
	switch {
	case w.tag == "":
		w.fail("partition", "is missing")
	case p.Family != f:
		w.fail("partition", w.tag+" is not a "+f.String()+" partition")
	case f == keyspace.FlowFamily:
		w.exists("partition", p)
	}
}

// exists checks that the deployment has a flow partition: no worker and no keeper looks into others.
func (w *wire) exists(field string, p keyspace.Partition) {
	if err := hasPartition(p, w.partitions); err != nil {
		w.fail(field, err.Error())
	}
}

func hasPartition(p keyspace.Partition, partitions int) error {
	if partitions > 0 && int(p.Index) >= partitions {
		return fmt.Errorf("partition %s does not exist, the deployment has 0 to %d", p, partitions-1)
	}
	return nil
}

// execution takes the call's hash tag from an execution id.
func (w *wire) execution(field string, id enginecore.ExecutionID) {
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		w.fail(field, err.Error())
		return
	}
	w.tag = id.Tag()
	w.exists(field, p)
}

// belongs checks that an execution id is of the call's partition.
func (w *wire) belongs(field string, id enginecore.ExecutionID) {
	if !strings.HasPrefix(string(id), w.tag) || len(id) < len(w.tag)+2 || id[len(w.tag)] != ':' {
		w.fail(field, "execution "+string(id)+" is not of partition "+w.tag)
	}
}

// anyExecution checks an execution id of any partition.
func (w *wire) anyExecution(field string, id enginecore.ExecutionID) {
	if _, err := keyspace.PartitionOf(id); err != nil {
		w.fail(field, err.Error())
	}
}

// need checks that a value that becomes part of a key is there.
func (w *wire) need(field, value string) {
	if value == "" {
		w.fail(field, "is missing")
	}
}

// key adds a key and checks that it lives in the call's slot.
func (w *wire) key(k string) {
	if TagOf(k) != w.tag {
		w.fail("keys", k+" does not carry the tag "+w.tag)
	}
	w.list = append(w.list, k)
}

// noKey fills the place of an optional key. An empty text would hash to another slot.
func (w *wire) noKey() { w.list = append(w.list, w.keys.execNoop(w.tag)) }

func (w *wire) text(s string)  { w.args = append(w.args, s) }
func (w *wire) bytes(b []byte) { w.args = append(w.args, rueidis.BinaryString(b)) }
func (w *wire) int(n int64)    { w.args = append(w.args, strconv.FormatInt(n, 10)) }

// sealed returns the bytes that the engine keeps for the value of a user.
func (w *wire) sealed(slot payload.Slot, b []byte) []byte {
	if w.payloads == nil && !payload.IsEnvelope(b) {
		return b
	}
	return w.sealedAt(payload.At(slot, w.owner), b)
}

// sealedOf does the same for a value of a node of the owner.
func (w *wire) sealedOf(slot payload.Slot, node int64, b []byte) []byte {
	if w.payloads == nil && !payload.IsEnvelope(b) {
		return b
	}
	place := payload.OfRun(slot, w.owner)
	place.Node = int(node)
	return w.sealedAt(place, b)
}

func (w *wire) sealedAt(place payload.Place, b []byte) []byte {
	kept, err := w.payloads.Seal(place, b)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%s: %w", w.name, err)
	}
	return kept
}

// textOr sends a text, or the fallback in place of an empty one.
func (w *wire) textOr(s, fallback string) {
	if s == "" {
		s = fallback
	}
	w.text(s)
}

// intOr sends a number, or the fallback in place of 0.
func (w *wire) intOr(n int64, fallback string) {
	if n == 0 {
		w.text(fallback)
		return
	}
	w.int(n)
}

// millisOr sends whole milliseconds as millis does, or the fallback in place of 0.
func (w *wire) millisOr(d time.Duration, fallback string) {
	if d == 0 {
		w.text(fallback)
		return
	}
	w.millis(d)
}

func (w *wire) optionalInt(n int64) {
	if n == 0 {
		w.text("")
		return
	}
	w.int(n)
}

func (w *wire) float(f float64) { w.args = append(w.args, strconv.FormatFloat(f, 'g', -1, 64)) }

func (w *wire) optionalFloat(f float64) {
	if f == 0 {
		w.text("")
		return
	}
	w.float(f)
}

// millis sends whole milliseconds. A positive duration below one is sent as one, since 0 often means "none".
func (w *wire) millis(d time.Duration) {
	ms := d.Milliseconds()
	if ms == 0 && d > 0 {
		ms = 1
	}
	w.int(ms)
}

func (w *wire) optionalMillis(d time.Duration) {
	if d == 0 {
		w.text("")
		return
	}
	w.millis(d)
}

// time sends unix milliseconds, and "" for the zero time. A time that has no form as text stops the call.
func (w *wire) time(t time.Time) {
	if t.IsZero() {
		w.text("")
		return
	}
	if err := recordtext.CheckTime(t); err != nil {
		w.fail("time", err.Error())
	}
	w.int(t.UnixMilli())
}

// timeOrNow sends unix milliseconds; for the zero time it sends the present time.
func (w *wire) timeOrNow(t time.Time) {
	if t.IsZero() {
		t = time.Now()
	}
	w.time(t)
}

func (w *wire) bool(b bool) {
	if b {
		w.text("1")
	} else {
		w.text("0")
	}
}

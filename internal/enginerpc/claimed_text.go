package enginerpc

import (
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

// claimedReader takes the parts of the text that describes a claimed execution from its beginning. ok is false once a
// part was missing or malformed.
type claimedReader struct {
	text string
	ok   bool
}

// word returns the text up to the next blank.
func (r *claimedReader) word() string {
	word, rest, found := strings.Cut(r.text, " ")
	r.text, r.ok = rest, r.ok && found
	return word
}

// number returns the word that comes next as a number that is not negative.
func (r *claimedReader) number() int64 {
	n, ok := wholeNumber(r.word())
	r.ok = r.ok && ok && n >= 0
	return n
}

// time returns the word that comes next as Unix milliseconds; "-" is the zero time.
func (r *claimedReader) time() time.Time {
	if rest, found := strings.CutPrefix(r.text, "- "); found {
		r.text = rest
		return time.Time{}
	}
	return recordtext.Time(r.number())
}

// bytes returns the next n bytes.
func (r *claimedReader) bytes(n int64) string {
	if !r.ok || n > int64(len(r.text)) {
		r.ok = false
		return ""
	}
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}

// Parts of the bytes by which a description has the creation and the deadline of a run, as its header has them
// (run_head in lua/composite/rows/row.lua).
const (
	packedTimes  = 27 // all of them, with the class of the run at the end
	beforeTimes  = 7  // the time of its entry in the list of runs
	packedTime   = 6
	packedLength = 4
)

// packed returns the next n bytes as a little-endian number.
func (r *claimedReader) packed(n int64) (number int64) {
	text := r.bytes(n)
	for i := len(text) - 1; i >= 0; i-- {
		number = number<<8 | int64(text[i])
	}
	return number
}

// marked skips a mark, and reports whether it is there.
func (r *claimedReader) marked(mark string) (found bool) {
	r.text, found = strings.CutPrefix(r.text, mark)
	return found
}

// names sets the id and the trace context of the run from its record.
func (r *claimedReader) names(record string, out *ClaimedExecution) (fault string) {
	runID, trace, err := runrecord.DecodeNames(record)
	if r.ok && err != nil {
		return "is of " + string(out.ExecutionID) + " of flow " + out.FlowName + ": " + err.Error()
	}
	out.RunID, out.TraceContext = runID, trace
	return ""
}

// parseClaimed reads the text by which the library describes most executions that are leased for their first attempt,
// or for a retry (usual_one.describe in lua/composite/usual/usual_one.lua after the digit 1, else row_claimed.describe
// in lua/composite/rows/row_claimed.lua). It returns the fault of the text, or "". The input of the execution is a part
// of data: nothing else refers to these bytes, so they may be changed.
func parseClaimed(data []byte, out *ClaimedExecution) (fault string) {
	r := claimedReader{text: rueidis.BinaryString(data), ok: true}
	if r.marked(">") {
		return r.parseFollowing(out)
	}
	single := r.marked("1")
	out.ExecutionID = enginecore.ExecutionID(r.word())
	out.LeaseID, out.LeaseExpiresAt = enginecore.LeaseID(r.word()), r.time()
	out.InputsComplete, out.FlowInput = true, []byte{}
	if single {
		fault = r.parseSingle(data, out)
	} else {
		fault = r.parseNode(data, out)
	}
	if fault == "" && (!r.ok || out.ExecutionID.Tag() == "") {
		fault = "is not a description of an execution"
	}
	return fault
}

// parseFollowing reads the rest of the description of a node that a completion of the call has made ready (turn.mark_of
// in lua/composite/usual/turn.lua). follow sets the fields that it has in common with the completed node.
func (r *claimedReader) parseFollowing(out *ClaimedExecution) (fault string) {
	after, ahead := strings.CutSuffix(r.word(), "a")
	if ahead {
		out.Admission = ofGraph
	}
	number, isNumber := wholeNumber(after)
	out.After, out.ExecutionID = number, enginecore.ExecutionID(r.word())
	expires, isTime := wholeNumber(r.text)
	out.LeaseExpiresAt = recordtext.Time(expires)
	if !r.ok || !isNumber || !isTime || number < 1 || len(out.ExecutionID) != len(rootSuffix) {
		return "is not a description of a following node"
	}
	return ""
}

// parseSingle reads the rest of the description of the node of a run that has no others.
func (r *claimedReader) parseSingle(data []byte, out *ClaimedExecution) (fault string) {
	times := claimedReader{text: r.bytes(packedTimes), ok: r.ok}
	times.bytes(beforeTimes)
	out.CreatedAt = recordtext.Time(times.packed(packedTime))
	if deadline := times.packed(packedTime); deadline > 0 {
		out.DeadlineAt = recordtext.Time(deadline)
	}
	if r.bytes(1) == "a" {
		out.Admission = ofGraph
	}
	if r.bytes(1) == "g" {
		out.Budgets = ofGraph
	}
	out.Graph = r.word()
	out.FlowName = r.bytes(r.number())
	fault = r.names(r.bytes(r.packed(packedLength)), out)
	if r.text != "" {
		size := r.packed(packedLength)
		out.FlowInput = data[len(data)-len(r.text):]
		r.ok = r.ok && size == int64(len(r.text))
	}
	return fault
}

// parseNode reads the rest of the description of another node.
func (r *claimedReader) parseNode(data []byte, out *ClaimedExecution) (fault string) {
	out.CreatedAt, out.DeadlineAt, out.Graph = r.time(), r.time(), r.word()
	name, size := r.number(), r.number()
	out.FlowName = r.bytes(name)
	if fault := r.names(r.bytes(size), out); fault != "" {
		return fault
	}
	if r.marked("a") {
		out.Admission = ofGraph
	}
	if r.marked("g") {
		out.Budgets = ofGraph
	}
	if r.marked("b") {
		out.Budgets = r.bytes(r.number())
	}
	if r.marked("r") {
		out.AttemptType = "retry"
		out.AttemptIndex, out.LeaseEpoch = enginecore.AttemptIndex(r.number()), enginecore.LeaseEpoch(r.number())
		out.RetryCount = r.number()
	}
	switch input := r.text; {
	case r.marked("i"):
		size, node := r.number(), r.word()
		upstream := r.bytes(size)
		out.Inputs = []NodeInput{{Name: upstream, Upstream: node, Result: data[len(data)-len(r.text):]}}
	case strings.HasPrefix(input, "f"):
		out.FlowInput = data[len(data)-len(input)+1:]
	case input != "":
		r.ok = false
	}
	return ""
}

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

// parseClaimed reads the text by which the library describes most executions that are leased for their first attempt,
// or for a retry
// (row_claimed.describe in lua/composite/rows/row_claimed.lua). It returns the fault of the text, or "". The input of
// the execution is a part of data: nothing else refers to these bytes, so they may be changed.
func parseClaimed(data []byte, out *ClaimedExecution) string {
	r := claimedReader{text: rueidis.BinaryString(data), ok: true}
	out.ExecutionID = enginecore.ExecutionID(r.word())
	out.LeaseID, out.LeaseExpiresAt = enginecore.LeaseID(r.word()), r.time()
	out.CreatedAt, out.DeadlineAt, out.Graph = r.time(), r.time(), r.word()
	name, size := r.number(), r.number()
	out.FlowName = r.bytes(name)
	runID, trace, err := runrecord.DecodeNames(r.bytes(size))
	if r.ok && err != nil {
		return "is of " + string(out.ExecutionID) + " of flow " + out.FlowName + ": " + err.Error()
	}
	out.RunID, out.TraceContext = runID, trace
	if rest, found := strings.CutPrefix(r.text, "a"); found {
		r.text, out.Admission = rest, ofGraph
	}
	if rest, found := strings.CutPrefix(r.text, "g"); found {
		r.text, out.Budgets = rest, ofGraph
	}
	if rest, found := strings.CutPrefix(r.text, "b"); found {
		r.text = rest
		out.Budgets = r.bytes(r.number())
	}
	if rest, found := strings.CutPrefix(r.text, "r"); found {
		r.text, out.AttemptType = rest, "retry"
		out.AttemptIndex, out.LeaseEpoch = enginecore.AttemptIndex(r.number()), enginecore.LeaseEpoch(r.number())
		out.RetryCount = r.number()
	}
	out.InputsComplete, out.FlowInput = true, []byte{}
	switch input := r.text; {
	case strings.HasPrefix(input, "i"):
		r.text = input[1:]
		upstream := r.bytes(r.number())
		out.Inputs = []NodeInput{{Name: upstream, Result: data[len(data)-len(r.text):]}}
	case strings.HasPrefix(input, "f"):
		out.FlowInput = data[len(data)-len(input)+1:]
	case input != "":
		r.ok = false
	}
	if !r.ok || out.ExecutionID.Tag() == "" {
		return "is not a description of an execution"
	}
	return ""
}

package enginerpc

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Pair is a name and its value in a reply that carries a free set of fields.
type Pair struct {
	Name  string
	Value []byte
}

// fields reads the values of one array in order. The first fault is kept at the root; later reads give zero
// values.
type fields struct {
	function string
	status   Status
	open     bool // further values are fine: a newer library may add them
	items    []rueidis.RedisMessage
	at       int
	parent   *fields
	name     string                   // of the list in the parent
	index    int                      // of this element in that list
	err      error                    // at the root only
	claimed  []ClaimedExecution       // at the root only
	named    []string                 // at the root only: texts in the place of values
	values   map[string]*fetched      // at the root only: these values; nil while they are not known
	unread   error                    // at the root only: of the first value that could not be opened
	payloads *payload.Pipeline        // at the root only
	owner    string                   // the id to which the sealed values belong
	owners   []enginecore.ExecutionID // of the elements of the list that comes next
}

// opened returns the value of a user for the bytes that the engine keeps in a place of an owner. In the place of a
// value that cannot be opened, it returns bytes for which payload.Check returns the reason.
func (r *fields) opened(slot payload.Slot, owner string, b []byte) []byte {
	switch {
	case isList(b):
		var unread []byte
		list := valueOf(b, func(of payload.Slot, b []byte) []byte {
			value := r.opened(of, owner, b)
			if unread == nil && payload.Check(value) != nil {
				unread = value
			}
			return value
		})
		if unread != nil {
			return unread
		}
		return list
	case !payload.IsEnvelope(b):
		return b
	}
	root := r.root()
	value := root.payloads.OpenOrMark(payload.At(slot, owner), b)
	if root.unread == nil {
		root.unread = payload.Check(value)
	}
	return value
}

// nodeOf returns the id of the execution of another node of the run of an execution, given the number of that node, or
// the whole id of the other execution.
func nodeOf[N ~string | ~int64](owner string, node N) string {
	text := fmt.Sprint(node)
	number, ok := wholeNumber(text)
	if !ok || len(owner) < len(rootSuffix) {
		return text
	}
	return fmt.Sprintf("%s%04x", owner[:len(owner)-len(rootSuffix)], number)
}

func (r *fields) root() *fields {
	for r.parent != nil {
		r = r.parent
	}
	return r
}

func (r *fields) path() string {
	if r.parent == nil {
		return ""
	}
	return fmt.Sprintf("%s%s[%d].", r.parent.path(), r.name, r.index)
}

func (r *fields) fail(name, problem string) {
	root := r.root()
	if root.err == nil {
		root.err = &enginecore.DecodeError{Function: root.function, Field: r.path() + name, Problem: problem}
	}
}

func (r *fields) failed() bool { return r.root().err != nil }

func (r *fields) left() int { return len(r.items) - r.at }

func (r *fields) unknownStatus() {
	r.fail("status", fmt.Sprintf("%q with %d values", r.status, r.left()))
}

// end checks that everything was read.
func (r *fields) end() {
	if r.left() > 0 && !r.open {
		r.fail("", fmt.Sprintf("%d values more than expected", r.left()))
	}
}

// next is the next value, or nil when there is none.
func (r *fields) next(name string) *rueidis.RedisMessage {
	if r.failed() {
		return nil
	}
	if r.at >= len(r.items) {
		r.fail(name, "is missing")
		return nil
	}
	r.at++
	return &r.items[r.at-1]
}

// raw is the next value as text. Integers are taken too where numbers are expected.
func (r *fields) raw(name string, number bool) (string, bool) {
	m := r.next(name)
	if m == nil {
		return "", false
	}
	switch {
	case m.IsString():
		s, err := m.ToString()
		if err == nil {
			return s, true
		}
	case number && m.IsInt64():
		n, err := m.ToInt64()
		if err == nil {
			return strconv.FormatInt(n, 10), true
		}
	}
	r.fail(name, "is "+kindOf(m)+", not a string")
	return "", false
}

func kindOf(m *rueidis.RedisMessage) string {
	switch {
	case m.IsNil():
		return "nil"
	case m.IsInt64():
		return "an integer"
	case m.IsArray():
		return "an array"
	case m.IsMap():
		return "a map"
	case m.IsString():
		return "a string"
	case m.Error() != nil:
		return "an error"
	}
	return "of another type"
}

func textValue[T ~string](r *fields, name string) T {
	s, _ := r.raw(name, false)
	return T(s)
}

// executionIDValue also checks the form, since a reply that is shifted by one value would show here.
func executionIDValue(r *fields, name string) enginecore.ExecutionID {
	s, ok := r.raw(name, false)
	id := enginecore.ExecutionID(s)
	if ok && s != "" && id.Tag() == "" {
		r.fail(name, fmt.Sprintf("%q is not an execution id", s))
		return ""
	}
	return id
}

func bytesValue(r *fields, name string) []byte {
	m := r.next(name)
	if m == nil {
		return nil
	}
	if !m.IsString() {
		r.fail(name, "is "+kindOf(m)+", not a string")
		return nil
	}
	b, err := m.AsBytes()
	if err != nil {
		r.fail(name, err.Error())
		return nil
	}
	return b
}

func intValue[T ~int64 | ~int](r *fields, name string) T {
	s, ok := r.raw(name, true)
	if !ok {
		return 0
	}
	n, ok := wholeNumber(s)
	if !ok || int64(T(n)) != n {
		r.fail(name, fmt.Sprintf("%q is not a whole number", s))
		return 0
	}
	return T(n)
}

// wholeNumber reads a decimal integer. The library renders numbers from 1e14 with an exponent.
func wholeNumber(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

func floatValue(r *fields, name string) float64 {
	s, ok := r.raw(name, true)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		r.fail(name, fmt.Sprintf("%q is not a number", s))
		return 0
	}
	return f
}

const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// millisValue reads milliseconds; "" is none.
func millisValue(r *fields, name string) time.Duration {
	s, ok := r.raw(name, true)
	if !ok || s == "" {
		return 0
	}
	n, ok := wholeNumber(s)
	if !ok || n > maxMillis || n < -maxMillis {
		r.fail(name, fmt.Sprintf("%q is not a duration in ms", s))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// timeValue reads unix milliseconds; "" is the zero time. A fraction, which only a foreign caller can have
// stored, is cut off.
func timeValue(r *fields, name string) time.Time {
	s, ok := r.raw(name, true)
	if !ok || s == "" {
		return time.Time{}
	}
	n, ok := wholeNumber(s)
	if !ok {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.Abs(f) >= 1<<62 {
			r.fail(name, fmt.Sprintf("%q is not a time in ms", s))
			return time.Time{}
		}
		n = int64(math.Floor(f))
	}
	return recordtext.Time(n)
}

func boolValue(r *fields, name string) bool {
	s, ok := r.raw(name, true)
	if !ok {
		return false
	}
	switch s {
	case "1":
		return true
	case "0", "":
		return false
	}
	r.fail(name, fmt.Sprintf("%q is neither 1 nor 0", s))
	return false
}

// isEmptyText reports whether a value is the empty text, which can represent an empty array.
func isEmptyText(m *rueidis.RedisMessage) bool {
	if !m.IsString() {
		return false
	}
	text, err := m.ToString()
	return err == nil && text == ""
}

// array is the next value as an array.
func (r *fields) array(name string) []rueidis.RedisMessage {
	m := r.next(name)
	if m == nil || isEmptyText(m) {
		return nil
	}
	if !m.IsArray() {
		r.fail(name, "is "+kindOf(m)+", not an array")
		return nil
	}
	items, err := m.ToArray()
	if err != nil {
		r.fail(name, err.Error())
	}
	return items
}

// list reads a nested array whose elements are arrays, or, of claimed executions, texts.
func list[T any](r *fields, name string, decode func(*fields, *T)) []T {
	items := r.array(name)
	if len(items) == 0 {
		return nil
	}
	out := make([]T, len(items))
	child := fields{open: r.open, parent: r, name: name}
	owners := r.owners
	for i := range items {
		child.owner = r.owner
		if i < len(owners) {
			child.owner = string(owners[i])
		}
		if r.failed() {
			return nil
		}
		if x, ok := any(&out[i]).(*ClaimedExecution); ok && items[i].IsString() {
			text, _ := items[i].AsBytes()
			if problem := parseClaimed(text, x); problem != "" {
				r.fail(fmt.Sprintf("%s[%d]", name, i), problem)
			}
			x.FlowInput = r.opened(payload.Input, string(x.ExecutionID), r.stored(x.FlowInput))
			for k := range x.Inputs {
				in := &x.Inputs[k]
				in.Result = r.opened(payload.Result, nodeOf(string(x.ExecutionID), in.Upstream), r.stored(in.Result))
			}
			continue
		}
		if !items[i].IsArray() {
			r.fail(fmt.Sprintf("%s[%d]", name, i), "is "+kindOf(&items[i])+", not an array")
			return nil
		}
		child.items, _ = items[i].ToArray()
		child.at, child.index = 0, i
		decode(&child, &out[i])
		child.end()
	}
	if claimed, ok := any(out).([]ClaimedExecution); ok {
		r.root().claimed = claimed
	}
	return out
}

// listOf reads a nested array of single values.
func listOf[T any](r *fields, name string, value func(*fields, string) T) []T {
	items := r.array(name)
	if len(items) == 0 {
		return nil
	}
	child := fields{open: r.open, parent: r, name: name, items: items}
	out := make([]T, len(items))
	for i := range out {
		child.index = i
		out[i] = value(&child, "")
	}
	return out
}

// restOf reads the remaining fields as single values.
func restOf[T any](r *fields, name string, value func(*fields, string) T) []T {
	if r.left() == 0 {
		return nil
	}
	out := make([]T, 0, r.left())
	for r.left() > 0 && !r.failed() {
		out = append(out, value(r, name))
	}
	return out
}

// rest reads the remaining fields as flat records.
func rest[T any](r *fields, name string, decode func(*fields, *T)) []T {
	var out []T
	for r.left() > 0 && !r.failed() {
		before := r.at
		var x T
		decode(r, &x)
		if r.at == before {
			return out
		}
		out = append(out, x)
	}
	return out
}

// group reads a count and that many flat records.
func group[T any](r *fields, name string, decode func(*fields, *T)) []T {
	count := intValue[int64](r, name)
	if r.failed() {
		return nil
	}
	if count < 0 || count > int64(r.left()) {
		r.fail(name, fmt.Sprintf("announces %d elements, %d values are left", count, r.left()))
		return nil
	}
	out := make([]T, count)
	for i := range out {
		decode(r, &out[i])
	}
	return out
}

// groupOf reads a count and that many single values.
func groupOf[T any](r *fields, name string, value func(*fields, string) T) []T {
	return group(r, name, func(r *fields, x *T) { *x = value(r, name) })
}

// pairs reads a nested array of names and values in turn.
func pairs(r *fields, name string) []Pair {
	items := r.array(name)
	if len(items)%2 != 0 {
		r.fail(name, "has a name without a value")
		return nil
	}
	child := fields{parent: r, name: name, items: items}
	out := make([]Pair, len(items)/2)
	for i := range out {
		child.index = i
		out[i] = Pair{textValue[string](&child, "name"), bytesValue(&child, "value")}
	}
	return out
}

// decodeReply reads the envelope of a reply: a refusal becomes an *Error, a success is given to decode.
func decodeReply[R any](info callInfo, m rueidis.RedisMessage, decode func(*fields) R) (R, error) {
	out, _, err := readReply(info, m, decode, fields{})
	return out, err
}

// readReply works like decodeReply, and also returns the claimed executions of the reply, which shares them, and the
// texts in the place of values that are not among the given ones.
func readReply[R any](
	info callInfo, m rueidis.RedisMessage, decode func(*fields) R, r fields,
) (R, fields, error) {
	var zero R
	r.function, r.open = info.name, info.open
	if info.form == formRaw {
		if !m.IsArray() {
			r.items = []rueidis.RedisMessage{m}
			out := decode(&r)
			if r.err != nil {
				return zero, r, r.err
			}
			return out, r, nil
		}
	}
	if !m.IsArray() {
		return zero, r, &enginecore.DecodeError{
			Function: info.name, Field: "", Problem: kindOf(&m) + " in place of an array",
		}
	}
	items, err := m.ToArray()
	if err != nil || len(items) == 0 {
		return zero, r, &enginecore.DecodeError{Function: info.name, Field: "", Problem: "empty array"}
	}
	r.items = items
	if first := &items[0]; first.IsInt64() || info.form != formBare {
		n, err := first.ToInt64()
		if err != nil || n != 0 && n != 1 {
			return zero, r, &enginecore.DecodeError{
				Function: info.name, Field: "", Problem: "does not begin with 0 or 1",
			}
		}
		r.at = 1
		if n == 0 {
			return zero, r, refusal(&r)
		}
	}
	if info.form == formRaw {
		return zero, r, &enginecore.DecodeError{
			Function: info.name, Field: "", Problem: "an array in place of a string",
		}
	}
	r.status = textValue[Status](&r, "status")
	if r.err == nil {
		out := decode(&r)
		r.end()
		if r.err == nil {
			return out, r, nil
		}
	}
	return zero, r, r.err
}

// refusal reads a code and its details. A code may be followed by a colon and a value, which becomes a detail.
func refusal(r *fields) error {
	code := textValue[string](r, "error code")
	e := &enginecore.Error{Function: r.function}
	for i := range len(code) {
		if code[i] == ':' {
			code, e.Details = code[:i], append(e.Details, code[i+1:])
			break
		}
	}
	e.Code = enginecore.Code(code)
	for r.left() > 0 && r.err == nil {
		s, _ := r.raw("detail", true)
		e.Details = append(e.Details, s)
	}
	if r.err != nil {
		return r.err
	}
	if code == "" {
		return &enginecore.DecodeError{Function: r.function, Field: "error code", Problem: "is empty"}
	}
	return e
}

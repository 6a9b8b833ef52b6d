package enginerpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// LargeValue is the size in bytes from which on inputs and results do not go through functions of the library: the
// connection writes them to keys of their own, and reads them from there. lua/composite/rows/stored_value.lua is the
// other side, and describes the texts in their place.
const LargeValue = 4 << 10

// The texts in the place of values begin with one of these. A value that does so itself has its own key, too.
const (
	sentMark  = "\x00sent "
	keptMark  = "\x00kept "
	markBytes = len(sentMark)
)

// CallBytes is how much a value counts in a call with several: a large one costs the server little, but the calls of
// others wait while it arrives.
func CallBytes(value []byte) int {
	if len(value) < LargeValue {
		return len(value)
	}
	return LargeValue + len(value)/16
}

// sentFor is how long a value lasts that no call has accepted: longer than the way to the server takes.
const sentFor = time.Minute

// valuesAtATime bounds the values that one pipeline reads.
const valuesAtATime = 16

// missingTries bounds how often a call is sent whose values were gone when it came, or are gone when they are read.
const missingTries = 3

// sentValue is a value that is written before the call that names it.
type sentValue struct {
	key, bytes string
	arg        int // the argument that names it
}

// isNamed reports whether bytes begin like a text in the place of a value.
func isNamed(b []byte) bool {
	if len(b) < markBytes || b[0] != 0 {
		return false
	}
	mark := string(b[:markBytes])
	return mark == sentMark || mark == keptMark
}

// value sends an input or a result: a large one before the call, which names it.
func (w *wire) value(b []byte) {
	b = stowed(b)
	if w.inline || len(b) < LargeValue && !isNamed(b) {
		w.bytes(b)
		return
	}
	place := w.tag + ":sent:" + valueName()
	w.sent = append(w.sent, sentValue{w.keys.prefix + ":ffx:" + place, rueidis.BinaryString(b), len(w.args)})
	w.text(sentMark + place + " " + strconv.Itoa(len(b)))
}

// valueName returns a name that no other value has.
func valueName() string {
	name := strconv.AppendUint(make([]byte, 0, 26), rand.Uint64(), 36)
	return string(strconv.AppendUint(name, rand.Uint64(), 36))
}

// commands appends the commands that write the values of a call, and the call, which has to follow on the same
// connection.
func (w *wire) commands(list commands, b func() rueidis.Builder) commands {
	for _, v := range w.sent {
		list = append(list, b().Set().Key(v.key).Value(v.bytes).Px(sentFor).Build())
	}
	return append(list, w.command(b()))
}

// putInline makes the values of a call arguments. It reports whether it did: not a value that begins like a name.
func (w *wire) putInline() bool {
	for _, v := range w.sent {
		if isNamed([]byte(v.bytes[:min(len(v.bytes), markBytes)])) {
			return false
		}
	}
	for _, v := range w.sent {
		w.args[v.arg] = v.bytes
	}
	w.sent = nil
	return true
}

// once sends a call one time, with its values. It sends it again if the server no longer had them. A full server does
// not take the values by themselves, but a call that ends an execution: then they go in the call.
func (conn *Conn) once(ctx context.Context, w *wire) (message, error) {
	if len(w.sent) == 0 {
		return conn.client.Do(ctx, w.command(conn.client.B())).ToMessage()
	}
	for tries := 1; ; tries++ {
		m, err := answerOf(conn.client.DoMulti(ctx, w.commands(nil, conn.client.B)...))
		if isFull(err) && w.putInline() {
			return conn.client.Do(ctx, w.command(conn.client.B())).ToMessage()
		}
		if err != nil || tries == missingTries || !refusesMissing(m) {
			return m, err
		}
	}
}

// isFull reports whether a server has refused to write a value because its memory is full.
func isFull(err error) bool {
	refusal, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(refusal.Error(), full[0])
}

// answerOf returns the answer of a call that follows its values. If they are missing because they could not be
// written, that is the error.
func answerOf(results []rueidis.RedisResult) (message, error) {
	last := len(results) - 1
	m, err := results[last].ToMessage()
	if err != nil || !refusesMissing(m) {
		return m, err
	}
	for _, written := range results[:last] {
		if err := written.Error(); err != nil {
			return m, err
		}
	}
	return m, nil
}

// refusesMissing reports whether a reply refuses a call because its values are gone.
func refusesMissing(m message) bool {
	if !m.IsArray() {
		return false
	}
	items, err := m.ToArray()
	if err != nil || len(items) < 2 || !items[1].IsString() {
		return false
	}
	code, err := items[1].ToString()
	return err == nil && code == string(errorcode.ValueMissing)
}

// fetched is a value that has been read. It is given to one place of a reply, and others get copies.
type fetched struct {
	bytes []byte
	given bool
}

// storedValue reads an input or a result.
func storedValue(r *fields, name string) []byte { return r.stored(bytesValue(r, name)) }

// stored returns the value for the text in its place. While it is not known, stored notes the text.
func (r *fields) stored(b []byte) []byte {
	if !isNamed(b) {
		return b
	}
	root := r.root()
	if root.values == nil {
		root.named = append(root.named, string(b))
		return b
	}
	v := root.values[string(b)]
	if v == nil {
		return nil
	}
	if v.given {
		return append([]byte{}, v.bytes...)
	}
	v.given = true
	return v.bytes
}

// KeptValue returns the key and the size of a value of a run, given the text that is stored in its place. ok is false
// for a text that is a value.
func (k Keys) KeptValue(text string) (key string, size int, ok bool) {
	rest, found := strings.CutPrefix(text, keptMark)
	place, rest, more := strings.Cut(rest, " ")
	digits, _, _ := strings.Cut(rest, " ")
	size, err := strconv.Atoi(digits)
	return k.prefix + ":flow:" + place, size, found && more && err == nil
}

// takeSent adds the values that texts name and that a call has sent.
func takeSent(values map[string]*fetched, texts []string, sent []sentValue) {
	for _, v := range sent {
		name := v.key[strings.LastIndexByte(v.key, ':')+1:]
		for _, text := range texts {
			if strings.HasSuffix(text, " "+name) {
				// The caller of the call still has its bytes.
				values[text] = &fetched{bytes: []byte(v.bytes)}
			}
		}
	}
}

// readValues adds the other values that texts name. A value that is gone, or that another one has replaced, is left
// out.
func (conn *Conn) readValues(ctx context.Context, info callInfo, texts []string, values map[string]*fetched) error {
	reading := callInfo{name: info.name, readOnly: true}
	for len(texts) > 0 {
		some := texts[:min(len(texts), valuesAtATime)]
		texts = texts[len(some):]
		_, err := conn.repeat(ctx, reading, func() (message, error) {
			return message{}, conn.readSome(ctx, some, values)
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (conn *Conn) readSome(ctx context.Context, texts []string, values map[string]*fetched) error {
	list, sizes := make(commands, 0, len(texts)), make([]int, 0, len(texts))
	names := make([]string, 0, len(texts))
	for _, text := range texts {
		if key, size, ok := conn.keys.KeptValue(text); ok && values[text] == nil {
			list = append(list, conn.client.B().Get().Key(key).Build())
			sizes, names = append(sizes, size), append(names, text)
		}
	}
	if len(list) == 0 {
		return nil
	}
	for i, result := range conn.client.DoMulti(ctx, list...) {
		b, err := result.AsBytes()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return err
		}
		if len(b) == sizes[i] {
			values[names[i]] = &fetched{bytes: b}
		}
	}
	return nil
}

// errGone is the error of a reply that names values which are gone: the call has to be sent again.
var errGone = errors.New("values that the reply names are gone")

// readAll reads a reply together with the values that it names. The call may have sent them itself.
func readAll[R any](
	ctx context.Context, conn *Conn, info callInfo, m message, decode func(*fields) R, sent []sentValue,
) (R, []ClaimedExecution, error) {
	reply, r, err := readReply(info, m, decode, fields{payloads: conn.payloads})
	if err != nil || len(r.named) == 0 {
		return reply, r.claimed, cmp.Or(err, r.unreadable(info))
	}
	values := make(map[string]*fetched, len(r.named))
	takeSent(values, r.named, sent)
	err = conn.readValues(ctx, info, r.named, values)
	if err != nil {
		if len(r.claimed) > 0 {
			err = fmt.Errorf("%w: the values of a claimed execution could not be read: %w",
				enginecore.ErrOutcomeUnknown, err)
		}
		return reply, nil, err
	}
	if len(r.claimed) == 0 && len(values) < len(r.named) {
		for _, text := range r.named {
			if values[text] == nil {
				return reply, nil, errGone
			}
		}
	}
	reply, r, err = readReply(info, m, decode, fields{payloads: conn.payloads, values: values})
	return reply, r.claimed, cmp.Or(err, r.unreadable(info))
}

// unreadable returns the error of a reply with a value that cannot be opened. Callers of calls that mark such values
// check each by itself, with payload.Check: so do workers, which cannot leave a reply that leases executions.
func (r *fields) unreadable(info callInfo) error {
	if r.unread == nil || len(r.claimed) > 0 || slices.Contains(marksUnreadable[:], info.name) {
		return nil
	}
	return r.unread
}

var marksUnreadable = [...]string{
	FunctionName(ReadInputsCall{}), FunctionName(ReadJournalCall{}),
}

// Exempt returns the result of a node for a call that leaves it in the clear, because the library reads it.
func (conn *Conn) Exempt(result []byte) []byte {
	if conn == nil || conn.payloads == nil {
		return result
	}
	return payload.Exempt(result)
}

// Opened returns the value of a user for the bytes that the engine keeps in a slot, for readers of its keys. owner is
// the id of the run or of the execution. The error wraps payload.ErrKeyMissing or payload.ErrAltered.
func (conn *Conn) Opened(slot payload.Slot, owner string, b []byte) ([]byte, error) {
	if err := conn.connected(); err != nil {
		return nil, err
	}
	r := fields{payloads: conn.payloads}
	value := r.opened(slot, owner, b)
	return value, r.unread
}

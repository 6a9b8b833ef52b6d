package enginerpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// A list is kept by the library in the place of a value that consists of values: it does not read these. It begins with
// this mark and the letter of its sort. lua/execution/results.lua is the other side.
const listMark = "\x00list "

// Sorts of lists. The library makes lists of signals and of arrays. A plain one has the bytes of a value that begins
// with the mark itself.
const (
	listOfSignals = 's'
	listOfArrays  = 'a'
	plainValue    = 'p'
)

// isList reports whether a value begins as a list does.
func isList(b []byte) bool {
	return len(b) > len(listMark) && b[0] == 0 && string(b[:len(listMark)]) == listMark
}

// stowed returns the form in which a value is stored: a value that begins as a list does gets a mark of its own.
func stowed(b []byte) []byte {
	if len(b) < len(listMark) || string(b[:len(listMark)]) != listMark {
		return b
	}
	return append([]byte(listMark+string(plainValue)), b...)
}

// Value returns the value that an input, a result or the result of a wait is, by its stored form, of a program that
// seals nothing.
func Value(stored []byte) []byte {
	return valueOf(stored, func(_ payload.Slot, b []byte) []byte { return b })
}

// IsValue reports whether a stored form is the value itself: neither a list nor sealed nor compressed.
func IsValue(stored []byte) bool { return !isList(stored) && !payload.IsEnvelope(stored) }

// opener returns the value of a user for the bytes that the engine keeps in a slot.
type opener func(slot payload.Slot, b []byte) []byte

// valueOf does the same for a program that seals, given how it opens the values of a list.
func valueOf(stored []byte, open opener) []byte {
	if !isList(stored) {
		return stored
	}
	texts := stored[len(listMark)+1:]
	switch stored[len(listMark)] {
	case listOfSignals:
		return signalList(texts, open)
	case listOfArrays:
		return arrayList(texts, open)
	case plainValue:
		return texts
	}
	return stored
}

// nextText returns the first text of a list, and the rest. ok is false at the end.
func nextText(list []byte) (text, rest []byte, ok bool) {
	if len(list) < 4 {
		return nil, nil, false
	}
	size := int(binary.LittleEndian.Uint32(list))
	if list = list[4:]; size > len(list) {
		return nil, nil, false
	}
	return list[:size], list[size:], true
}

// arrayList returns the elements of JSON arrays as one.
func arrayList(texts []byte, open opener) []byte {
	joined := make([]byte, 1, len(texts)+1)
	joined[0] = '['
	for array, rest, ok := nextText(texts); ok; array, rest, ok = nextText(rest) {
		array = open(payload.Input, array)
		elements := bytes.TrimPrefix(bytes.TrimSpace(array), []byte("["))
		elements = bytes.TrimSpace(bytes.TrimSuffix(elements, []byte("]")))
		if len(elements) == 0 {
			continue
		}
		if len(joined) > 1 {
			joined = append(joined, ',')
		}
		joined = append(joined, elements...)
	}
	return append(joined, ']')
}

// signalFields are the names of the texts of a signal in a list, except for its payload and its time.
var signalFields = [...]string{"id", "name", "category", "source_type", "source", "correlation_id"}

// signalList returns signals as a JSON array.
func signalList(texts []byte, open opener) []byte {
	b := bytes.NewBuffer(make([]byte, 0, 2*len(texts)))
	b.WriteByte('[')
	for len(texts) > 0 {
		var of [len(signalFields) + 2][]byte // with the time, and the payload
		for i := range of {
			var ok bool
			if of[i], texts, ok = nextText(texts); !ok {
				b.WriteByte(']')
				return b.Bytes()
			}
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		for i, name := range signalFields {
			b.WriteString([]string{"{", ","}[min(i, 1)] + `"` + name + `":`)
			b.Write(quoted(of[i]))
		}
		b.WriteString(`,"payload":`)
		b.Write(PayloadElement(open(payload.Signal, of[len(signalFields)+1])))
		b.WriteString(`,"at":`)
		if at := of[len(signalFields)]; len(at) > 0 {
			b.Write(at)
		} else {
			b.WriteByte('0')
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	return b.Bytes()
}

// PayloadElement returns the payload of a signal for a JSON list: JSON unchanged, other bytes as a JSON string.
func PayloadElement(b []byte) json.RawMessage {
	switch {
	case len(b) == 0:
		return json.RawMessage("null")
	case json.Valid(b):
		return b
	}
	return quoted(b)
}

// quoted returns a text in JSON.
func quoted(text []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(string(text), "\uFFFD")) // a text has a JSON form
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

package activityspec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"
)

// EncodeJSON encodes a value as JSON, without white space, and without escapes for HTML. A text that is not valid UTF-8
// is an error: package encoding/json would replace its invalid bytes.
func EncodeJSON(value any) ([]byte, error) {
	e := encoders.Get().(*jsonEncoder)
	defer e.release()
	if err := e.encoder.Encode(value); err != nil {
		return nil, err
	}
	data := bytes.Clone(bytes.TrimSuffix(e.buffer.Bytes(), []byte("\n")))
	if !utf8.Valid(data) { // of a json.RawMessage
		return nil, errNotUTF8
	}
	if bytes.Contains(data, replaced) {
		if err := checkTexts(reflect.ValueOf(value), 0); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// jsonEncoder is an encoder with its buffer, which are used again: values are mostly smaller than the two.
type jsonEncoder struct {
	buffer  bytes.Buffer
	encoder *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &jsonEncoder{}
	e.encoder = json.NewEncoder(&e.buffer)
	e.encoder.SetEscapeHTML(false)
	return e
}}

// maxKeptBuffer bounds the buffers that are used again, in bytes.
const maxKeptBuffer = 64 << 10

func (e *jsonEncoder) release() {
	if e.buffer.Cap() > maxKeptBuffer {
		return
	}
	e.buffer.Reset()
	encoders.Put(e)
}

var (
	errNotUTF8 = errors.New("it has a text that is not valid UTF-8")
	// replaced is how package encoding/json writes invalid bytes. It writes the character U+FFFD without an escape.
	replaced = []byte(`\ufffd`)
)

// maxWalk bounds how deep checkTexts looks, for values that contain themselves: encoding/json refuses those.
const maxWalk = 1000

// checkTexts returns an error if a value has a text that is not UTF-8. It skips values that encode themselves.
func checkTexts(v reflect.Value, depth int) error {
	if !v.IsValid() || depth > maxWalk {
		return nil
	}
	if encodesItself(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%w: %.80q", errNotUTF8, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		return checkTexts(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkTexts(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			err := checkTexts(entries.Key(), depth+1)
			if err = errors.Join(err, checkTexts(entries.Value(), depth+1)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
				continue
			}
			if err := checkTexts(v.Field(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// maxDepth bounds how deep the payload of a signal is nested.
const maxDepth = 1000

// CheckDepth refuses the payload of a signal that is nested too deep. It need not be valid JSON.
func CheckDepth(payload []byte) error {
	if len(payload) <= maxDepth {
		return nil
	}
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']', c == '}':
			depth--
		}
	}
	if deepest > maxDepth {
		return fmt.Errorf("payload is nested %d deep, at most %d is allowed", deepest, maxDepth)
	}
	return nil
}

// CheckJSON returns nil for a text in JSON whose meaning is the same for all who read it. Readers differ about names
// that an object has twice, texts that are not UTF-8, and halves of surrogate pairs: those are errors.
func CheckJSON(text []byte) error {
	if !json.Valid(text) {
		return errors.New("it is not JSON")
	}
	if !utf8.Valid(text) {
		return errNotUTF8
	}
	return scanJSON(text)
}

// place is the object or list in which a scan is.
type place struct {
	object bool
	// name is set where a name of the object comes next.
	name  bool
	names map[string]struct{}
}

// scanJSON checks the texts of valid JSON.
func scanJSON(text []byte) error {
	var stack []place
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			stack = append(stack, place{object: text[i] == '{', name: text[i] == '{'})
		case '}', ']':
			stack = stack[:len(stack)-1]
		case ',':
			if at := &stack[len(stack)-1]; at.object {
				at.name = true
			}
		case '"':
			end, err := endOfText(text, i)
			if err != nil {
				return err
			}
			if len(stack) > 0 && stack[len(stack)-1].name {
				if err := stack[len(stack)-1].add(text[i : end+1]); err != nil {
					return err
				}
			}
			i = end
		}
	}
	return nil
}

// endOfText returns the index of the quote that ends the text which begins at an index.
func endOfText(text []byte, begin int) (end int, err error) {
	for i := begin + 1; ; i++ {
		switch {
		case text[i] == '"':
			return i, nil
		case text[i] == '\\' && text[i+1] == 'u':
			n := 1
			if high := unit(text[i:]); high >= 0xd800 && high < 0xdc00 {
				n = 2
				if low := unit(text[i+6:]); low < 0xdc00 || low >= 0xe000 {
					n = 0
				}
			} else if high >= 0xdc00 && high < 0xe000 {
				n = 0
			}
			if n == 0 {
				return 0, fmt.Errorf("it has half of a surrogate pair, %s", text[i:i+6])
			}
			i += 6*n - 1
		case text[i] == '\\':
			i++
		}
	}
}

// unit returns the code unit of an escape with which a text begins; 0 if it begins with none.
func unit(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
	return n
}

// add notes a name of the object, in quotes.
func (p *place) add(quoted []byte) error {
	p.name = false
	name := string(quoted[1 : len(quoted)-1])
	if bytes.IndexByte(quoted, '\\') >= 0 {
		if err := json.Unmarshal(quoted, &name); err != nil {
			return err
		}
	}
	if _, twice := p.names[name]; twice {
		return fmt.Errorf("an object has the name %.80q twice", name)
	}
	if p.names == nil {
		p.names = make(map[string]struct{})
	}
	p.names[name] = struct{}{}
	return nil
}

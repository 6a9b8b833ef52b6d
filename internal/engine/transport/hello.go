package transport

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// maxProperty bounds each part of the answer to HELLO.
const maxProperty = 64 << 10

// errHello marks an answer to HELLO that cannot be read.
var errHello = errors.New("the answer to HELLO cannot be read")

// readProperties reads the answer to HELLO: fields and their values, or a refusal.
func readProperties(r *bufio.Reader) (properties map[string]string, refusal string, err error) {
	n, text, err := readItem(r)
	if err != nil || n < 0 {
		return nil, text, err
	}
	properties = make(map[string]string)
	for range n / 2 {
		_, name, err := readItem(r)
		if err != nil {
			return nil, "", err
		}
		inner, value, err := readItem(r)
		if err == nil && inner > 0 {
			err = skipItems(r, inner)
		}
		if err != nil {
			return nil, "", err
		}
		properties[name] = value
	}
	return properties, "", nil
}

// readItem reads one item of an answer: the text of one without parts, or the number of parts that follow, which is -1
// for an error.
func readItem(r *bufio.Reader) (parts int, text string, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 {
		return 0, "", errHello
	}
	kind, rest := line[0], strings.TrimSpace(string(line[1:]))
	switch kind {
	case '-':
		return -1, rest, nil
	case '+', ':':
		return 0, rest, nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n > maxProperty {
		return 0, "", errHello
	}
	switch kind {
	case '*':
		return max(n, 0), "", nil
	case '%':
		return 2 * max(n, 0), "", nil
	case '$':
		if n < 0 {
			return 0, "", nil
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(r, value); err != nil {
			return 0, "", err
		}
		return 0, string(value[:n]), nil
	}
	return 0, "", errHello
}

// skipItems skips items, such as the items of a list of modules.
func skipItems(r *bufio.Reader, n int) error {
	for ; n > 0; n-- {
		inner, _, err := readItem(r)
		if err != nil {
			return err
		}
		n += max(inner, 0)
	}
	return nil
}

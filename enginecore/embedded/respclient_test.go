package embedded

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// rawClient speaks the protocol byte by byte, so that tests see the exact type of every reply.
type rawClient struct {
	conn net.Conn
	r    *bufio.Reader
}

func newRawClient(conn net.Conn) *rawClient { return &rawClient{conn, bufio.NewReader(conn)} }

func (c *rawClient) send(words ...string) error {
	var b []byte
	b = resp.AppendHeader(b, '*', len(words))
	for _, w := range words {
		b = resp.AppendBulk(b, w)
	}
	_, err := c.conn.Write(b)
	return err
}

// value is one parsed reply.
type value struct {
	kind  byte
	text  string
	elems []value
	null  bool
}

func (c *rawClient) read() (value, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return value{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	v := value{kind: line[0], text: line[1:]}
	switch v.kind {
	case '$', '=':
		n, _ := strconv.Atoi(v.text)
		if n < 0 {
			v.null = true
			return v, nil
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return v, err
		}
		v.text = string(buf[:n])
	case '*', '~', '%', '>':
		n, _ := strconv.Atoi(v.text)
		if n < 0 {
			v.null = true
			return v, nil
		}
		if v.kind == '%' {
			n *= 2
		}
		v.text = ""
		for i := 0; i < n; i++ {
			e, err := c.read()
			if err != nil {
				return v, err
			}
			v.elems = append(v.elems, e)
		}
	}
	return v, nil
}

func (c *rawClient) do(words ...string) (value, error) {
	if err := c.send(words...); err != nil {
		return value{}, err
	}
	return c.read()
}

func (c *rawClient) must(t testing.TB, words ...string) value {
	t.Helper()
	v, err := c.do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return v
}

func (v value) String() string {
	switch {
	case v.null:
		return string(v.kind) + "null"
	case v.kind == '$' || v.kind == '=':
		return strconv.Quote(v.text)
	case v.kind == '*' || v.kind == '~' || v.kind == '%' || v.kind == '>':
		parts := make([]string, len(v.elems))
		for i, e := range v.elems {
			parts[i] = e.String()
		}
		return string(v.kind) + "[" + strings.Join(parts, " ") + "]"
	}
	return string(v.kind) + v.text
}

// texts returns the texts of a list.
func (v value) texts() []string {
	var out []string
	for _, e := range v.elems {
		out = append(out, e.text)
	}
	return out
}

// sorted orders the elements, in groups, where a server returns the order of its hash tables.
func (v value) sorted(group int) value {
	var parts []value
	for i := 0; i+group <= len(v.elems); i += group {
		parts = append(parts, value{kind: '*', elems: v.elems[i : i+group]})
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].String() < parts[j].String() })
	out := value{kind: v.kind, null: v.null, text: v.text}
	for _, p := range parts {
		out.elems = append(out.elems, p.elems...)
	}
	return out
}

// unordered hides the order of replies that have none.
func unordered(name string, v value) value {
	switch strings.ToLower(name) {
	case "hgetall":
		return v.sorted(2)
	case "smembers", "sinter", "sunion", "sdiff", "spop", "hkeys", "hvals", "keys":
		return v.sorted(1)
	case "sscan", "scan":
		if len(v.elems) == 2 {
			return value{kind: v.kind, elems: []value{v.elems[0], v.elems[1].sorted(1)}}
		}
	case "hscan", "zscan":
		if len(v.elems) == 2 {
			return value{kind: v.kind, elems: []value{v.elems[0], v.elems[1].sorted(2)}}
		}
	}
	if v.kind == '~' {
		return v.sorted(1)
	}
	return v
}

// dump describes the whole data set, independent of order where the server has none.
func (c *rawClient) dump(t testing.TB) []string {
	t.Helper()
	var out []string
	keys := c.must(t, "KEYS", "*").texts()
	sort.Strings(keys)
	for _, key := range keys {
		typ := c.must(t, "TYPE", key).text
		var v value
		switch typ {
		case "string":
			v = c.must(t, "GET", key)
		case "hash":
			v = unordered("hgetall", c.must(t, "HGETALL", key))
		case "set":
			v = unordered("smembers", c.must(t, "SMEMBERS", key))
		case "list":
			v = c.must(t, "LRANGE", key, "0", "-1")
		case "zset":
			v = c.must(t, "ZRANGE", key, "0", "-1", "WITHSCORES")
		case "stream":
			v = c.must(t, "XRANGE", key, "-", "+")
		}
		out = append(out, fmt.Sprintf("%s %s %s exp=%s", key, typ, v, c.must(t, "PEXPIRETIME", key)))
	}
	return out
}

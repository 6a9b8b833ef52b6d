package embedded

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// snapshotOf is the snapshot of data, as a file has it.
func snapshotOf(t *testing.T, d loggedData) string {
	t.Helper()
	var b bytes.Buffer
	w := record.NewWriter(bufio.NewWriter(&b), 1)
	d.Dump(w)
	require.NoError(t, w.Flush())
	return b.String()
}

// FuzzReplay replays logs of any commands: lines of words. A log is refused or leads to data whose snapshot leads to
// the same data.
func FuzzReplay(f *testing.F) {
	for _, seed := range []string{
		"SET k v\nAPPEND k w\nSETRANGE k 3 x\nPEXPIREAT k 1800000000000", "HSET h a 1 b 2\nHINCRBY h a 5\nHDEL h b", "SADD s a b c\nSREM s b",
		"ZADD z 1.5 a -inf b\nZADD z GT CH 3 a\nZREMRANGEBYSCORE z (1 +inf", "RPUSH l a b c\nLSET l 0 x\nLTRIM l 1 -1\nLREM l 0 c",
		"XADD st 1-1 f v\nXADD st MAXLEN ~ 1 2-1 f v\nXTRIM st MINID 2\nXSETID st 9-9", "COPY a b\nRENAME a b\nDEL k\nFLUSHALL", "MSET a 1 b 2\nINCR a\nSPOP s",
		"\x00STREAM s 1-1 0-0 1\n\x00NODE s 1-0 0 1 0 1-1 0", "XADD s 18446744073709551615-18446744073709551615 f v\nXADD s * f v", "SETRANGE k 536870911 x",
		"LPUSH l " + strings.Repeat("x ", 300), "GET k", "EVAL x 0", "SET k v EX 9223372036854775807", "ZADD z nan a", "INCRBY k 9223372036854775807\nINCR k",
	} {
		f.Add(seed)
	}
	commands := commandTable()
	f.Fuzz(func(t *testing.T, lines string) {
		d := loggedData{&keyspace.Store{Random: func(int) int { return 0 }}, commands}
		d.store.BeginReplay()
		for line := range strings.SplitSeq(lines, "\n") {
			words := strings.Split(line, " ")
			if tooLarge(words) {
				return
			}
			if d.Apply(words) != nil {
				return
			}
		}
		first := snapshotOf(t, d)
		again := loggedData{&keyspace.Store{}, commands}
		again.store.BeginReplay()
		for rest := first; rest != ""; {
			n, _, reason := record.Open([]byte(rest))
			require.Empty(t, reason)
			ok, err := record.ReadCommands([]byte(rest[record.HeaderSize:n]), again.Apply)
			require.True(t, ok)
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, d.Len(), again.Len())
		require.Equal(t, first, snapshotOf(t, again))
	})
}

// tooLarge reports whether a command may make a value of many megabytes, which is allowed and takes long.
func tooLarge(words []string) bool {
	for _, w := range words {
		if len(strings.TrimLeft(w, "-+0123456789")) == 0 && len(w) > 6 {
			return strings.EqualFold(words[0], "SETRANGE") || strings.EqualFold(words[0], "SETBIT")
		}
	}
	return false
}

// FuzzConnection sends any bytes to an engine. Each reply has the form of the protocol, and a connection that was not
// closed for a fault continues.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", "HELLO 3\r\nHGETALL h\r\nZADD z 1 a\r\nZRANGE z 0 -1 WITHSCORES\r\n", "MULTI\r\nGET k\r\nEXEC\r\n",
		"SUBSCRIBE ch\r\nPUBLISH ch m\r\nUNSUBSCRIBE\r\nRESET\r\n", "XADD s * f v\r\nXREAD COUNT 1 STREAMS s 0\r\nXRANGE s - + COUNT 1\r\n", "SCAN 0 MATCH a*[b COUNT 5\r\n",
		"EVAL 'return redis.call' 0\r\n", "FUNCTION LOAD x\r\nFCALL f 9999999999 k\r\nFUNCTION LIST\r\n", "INFO\r\nCLIENT LIST\r\nCONFIG GET *\r\nCOMMAND\r\n",
		"ZRANGEBYSCORE z -inf (5 LIMIT -1 -1\r\n", "LPOS l a RANK -1 MAXLEN 0\r\n", "SET k v PX 0\r\nSET k v XX GET KEEPTTL\r\n", "ACL WHOAMI\r\nWAIT 0 0\r\n", "QUIT\r\nGET k\r\n",
		"SINTERCARD 2 a b LIMIT 1\r\nSRANDMEMBER s -5\r\nSPOP s 3\r\n", "HSCAN h 0 NOVALUES\r\nZSCAN z 9 COUNT -1\r\n", "*1\r\n$-5\r\n", "GETRANGE k -9223372036854775808 9223372036854775807\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if tooLarge(strings.Fields(string(line))) || bytes.Contains(bytes.ToUpper(line), []byte("BLOCK")) {
				return // long replies of this kind are intended
			}
		}
		e := open(t, Options{})
		s, err := e.newSession()
		require.NoError(t, err)
		s.feed(data)
		s.replies.End()
		var out bytes.Buffer
		for buf := make([]byte, 1<<10); ; {
			n, over, _ := s.replies.Take(buf)
			out.Write(buf[:n])
			if over {
				break
			}
		}
		s.close()
		require.NotContains(t, out.String(), "internal error in")
		for c := (&rawClient{r: bufio.NewReader(&out)}); ; {
			v, err := c.read()
			if err != nil {
				require.Equal(t, io.EOF, err, "a reply was cut off")
				break
			}
			require.True(t, strings.ContainsRune("+-:$*_#,=%~>", rune(v.kind)), "a reply of the kind %q", v.kind)
		}
		require.Equal(t, "PONG", connect(t, e).must(t, "PING").text)
	})
}

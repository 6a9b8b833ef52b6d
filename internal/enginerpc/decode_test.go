package enginerpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// anyReply makes a reply of arbitrary shape from fuzz data.
func anyReply(data []byte, depth int) (any, []byte) {
	if len(data) == 0 {
		return nil, nil
	}
	kind, data := data[0], data[1:]
	take := func(n int) []byte {
		n = min(n, len(data))
		out := data[:n]
		data = data[n:]
		return out
	}
	switch kind % 8 {
	case 0:
		return nil, data
	case 1:
		return int(kind/8) - 1, data
	case 2:
		return errorReply(take(int(kind / 8))), data
	case 3, 4:
		if depth == 0 {
			return "", data
		}
		list := []any{}
		for range int(kind / 8) {
			var x any
			x, data = anyReply(data, depth-1)
			list = append(list, x)
			if len(data) == 0 {
				break
			}
		}
		return list, data
	case 5:
		return []string{"OK", "ALREADY_SATISFIED", "DUPLICATE", "stale_lease", "1", "0", "-1", "1e30", "nan"}[int(kind/8)%9], data
	}
	return string(take(int(kind / 8))), data
}

// FuzzDecode feeds any reply to every decoder, which returns a value or a known error and never panics.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x1b, 0x11, 0x05, 0x05})
	f.Add([]byte{0xfb, 0x11, 0x05, 0x0d, 0x15, 0x1b, 0x05})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, _ := anyReply(data, 4)
		m := reply(t, v)
		for _, d := range replyDecoders() {
			err := d.decode(m)
			var decode *enginecore.DecodeError
			var refusal *enginecore.Error
			if err != nil && !errors.As(err, &decode) && !errors.As(err, &refusal) {
				t.Errorf("%s: %T %v", d.function, err, err)
			}
		}
	})
}

func decodeInt(t *testing.T, v any) (int64, error) {
	t.Helper()
	return decodeReply(callInfo{name: "f"}, reply(t, []any{1, "OK", v}), func(r *fields) int64 { return intValue[int64](r, "n") })
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		wire any
		want int64
	}{{"0", 0}, {"-5", -5}, {5, 5}, {"1.0179518846844e+14", 101795188468440}} {
		if got, err := decodeInt(t, x.wire); err != nil || got != x.want {
			t.Errorf("%v: %d, %v", x.wire, got, err)
		}
	}
	for _, bad := range []any{"", "x", "1.5", "1e30", "nan", nil, []any{}} {
		if got, err := decodeInt(t, bad); err == nil {
			t.Errorf("%v decodes to %d", bad, got)
		}
	}
	at, err := decodeReply(callInfo{}, reply(t, []any{1, "OK", "1795188533905.1001", ""}), func(r *fields) [2]time.Time {
		return [2]time.Time{timeValue(r, "a"), timeValue(r, "b")}
	})
	if err != nil || at[0].UnixMilli() != 1795188533905 || !at[1].IsZero() {
		t.Errorf("%v, %v", at, err)
	}
}

func TestDecodeErrorNamesTheField(t *testing.T) {
	t.Parallel()
	type element struct{ id enginecore.ExecutionID }
	_, err := decodeReply(callInfo{name: "f"}, reply(t, []any{1, "OK", []any{[]any{"{fp:1}:x"}, []any{"shifted"}}}),
		func(r *fields) []element {
			return list(r, "executions", func(r *fields, out *element) { out.id = executionIDValue(r, "execution_id") })
		})
	var decode *enginecore.DecodeError
	if !errors.As(err, &decode) || decode.Function != "f" || decode.Field != "executions[1].execution_id" {
		t.Errorf("got %v", err)
	}
}

func TestArity(t *testing.T) {
	t.Parallel()
	long := []any{1, "OK", "1", "2"}
	one := func(r *fields) int64 { return intValue[int64](r, "n") }
	if _, err := decodeReply(callInfo{}, reply(t, long), one); err == nil {
		t.Error("a contract reply with a value too many decodes")
	}
	if _, err := decodeReply(callInfo{open: true}, reply(t, long), one); err != nil {
		t.Errorf("a composite reply may grow: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	decode := func(v any) error {
		_, err := decodeReply(callInfo{name: "f"}, reply(t, v), func(*fields) struct{} { return struct{}{} })
		return err
	}
	err := decode([]any{0, "execution_not_active", "success", "3", "terminal", "a-1"})
	var refusal *enginecore.Error
	if !errors.As(err, &refusal) || !errors.Is(err, enginecore.ErrExecutionNotActive) || errors.Is(err, enginecore.ErrStaleLease) {
		t.Fatalf("got %v", err)
	}
	if refusal.Detail("lease_epoch") != "3" || refusal.Detail("attempt_id") != "a-1" || refusal.Detail("nothing") != "" {
		t.Errorf("details %v", refusal.Details)
	}
	if err := decode([]any{0, "already_member_of_different_flow:abc"}); !errors.As(err, &refusal) ||
		!errors.Is(err, enginecore.ErrAlreadyMemberOfDifferentFlow) || refusal.Details[0] != "abc" {
		t.Errorf("got %v", err)
	}
	if err := decode([]any{0, "never_heard_of"}); !errors.Is(err, enginecore.Code("never_heard_of")) {
		t.Errorf("got %v", err)
	}
	if err := decode([]any{0}); !isDecodeError(err) {
		t.Errorf("got %v", err)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	serverError := func(text string) error {
		m := reply(t, errorReply(text))
		return m.Error()
	}
	broken := errors.New("connection reset")
	for _, x := range []struct {
		err        error
		repeatable bool
		verdict    verdict
		is         error
	}{
		{serverError("TRYAGAIN Multiple keys request during rehashing of slot"), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("CLUSTERDOWN The cluster is down"), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("LOADING Redis is loading"), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("READONLY You can't write against a read only replica."), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("ERR Script attempted to access a non local key in a cluster node script: x, on @user_function:1."), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot script: x, on @user_function:1."), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"), false, tryAgain, enginecore.ErrFull},
		{serverError("OOM command not allowed when used memory > 'maxmemory'."), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("MISCONF Errors writing to the AOF file: No space left on device"), false, tryAgain, enginecore.ErrFull},
		{serverError("MISCONF Redis is configured to save RDB snapshots"), false, tryAgain, enginecore.ErrUnavailable},
		{serverError("ERR ACL failure in script: No permissions to access a channel script: f, on @user_function:1."), false, giveUp, enginecore.ErrUnauthorized},
		{serverError("ERR The user executing the script can't publish to the channel mentioned in the command script: f, on @user_function:1."), false, giveUp, enginecore.ErrUnauthorized},
		{serverError("ERR Function not found"), false, loadLibrary, nil},
		{serverError("NOPERM this user has no permissions"), false, giveUp, enginecore.ErrUnauthorized},
		{serverError("ERR user_function:12: attempt to index"), true, giveUp, nil},
		{broken, true, tryAgain, enginecore.ErrUnavailable},
		{broken, false, giveUp, enginecore.ErrOutcomeUnknown},
		{rueidis.ErrClosing, false, giveUp, enginecore.ErrOutcomeUnknown},
		{rueidis.ErrClosing, true, giveUp, enginecore.ErrUnavailable},
		{rueidis.ErrClosing, false, giveUp, enginecore.ErrClosed},
		{rueidis.ErrClosing, true, giveUp, enginecore.ErrClosed},
	} {
		verdict, err := classify(t.Context(), callInfo{name: "f", repeatable: x.repeatable}, x.err)
		if verdict != x.verdict || err == nil || x.is != nil && !errors.Is(err, x.is) {
			t.Errorf("%v (repeatable %v): %d %v", x.err, x.repeatable, verdict, err)
		}
		if errors.Is(err, enginecore.ErrFull) && !errors.Is(err, enginecore.ErrUnavailable) {
			t.Errorf("%v is full, but not unavailable", err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "engine unavailable: engine") || strings.Contains(text, "full: engine") {
			t.Errorf("says a thing twice: %s", text)
		}
	}
}

func isDecodeError(err error) bool {
	var malformed *enginecore.DecodeError
	return errors.As(err, &malformed)
}

// A list of the library becomes the JSON that it is; a damaged one ends early. Other values stay.
func TestValueOfList(t *testing.T) {
	t.Parallel()
	list := func(sort string, texts ...string) string {
		b := []byte(listMark + sort)
		for _, text := range texts {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
			b = append(b, text...)
		}
		return string(b)
	}
	signal := func(payload string) []string {
		return []string{"1", "a<\"", "external", "client", "ann", "", "5", payload}
	}
	const head = `{"id":"1","name":"a<\"","category":"external","source_type":"client","source":"ann","correlation_id":"","payload":`
	for stored, want := range map[string]string{
		"": "", "null": "null", listMark: listMark, listMark + "x": listMark + "x",
		listMark + "p" + listMark + "s":                          listMark + "s",
		list("a", `["x, ]"]`, " [ 1,2 ]\n", "[]", `[{"z":1.0}]`): `["x, ]",1,2,{"z":1.0}]`,
		list("a"): "[]", list("s"): "[]",
		list("s", append(signal(`{"z": 1.0}`), signal("")...)...): "[" + head + `{"z": 1.0},"at":5},` + head + `null,"at":5}]`,
		list("s", signal("nan\xff")...):                           "[" + head + `"nan\ufffd","at":5}]`,
		list("s", append(signal("1"), "half")...):                 "[" + head + `1,"at":5}]`,
		list("a", "[1]") + "\x00\x00\x00\x01":                     "[1]",
	} {
		got := string(Value([]byte(stored)))
		if want = strings.ReplaceAll(want, `\ufffd`, "\uFFFD"); got != want {
			t.Errorf("%q is %s, want %s", stored, got, want)
		}
		if again := string(Value(stowed([]byte(stored)))); again != stored {
			t.Errorf("%q is stored as %q", stored, again)
		}
	}
}

// A list is opened as a whole or not at all: its value has no error text in the place of one that cannot be opened.
func TestListWithSealedValues(t *testing.T) {
	t.Parallel()
	ring, err := payload.NewRing(payload.Key{ID: "k", Secret: make([]byte, payload.KeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	const execution = "{fp:3}:1f0e9a30-0000-8000-9000-aabbccdd0002"
	p := &payload.Pipeline{Keys: ring}
	list := []byte(listMark + string(listOfArrays))
	for _, text := range []string{"[1]", "[2]"} {
		kept, err := p.Seal(payload.At(payload.Input, execution), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(binary.LittleEndian.AppendUint32(list, uint32(len(kept))), kept...)
	}
	r := fields{payloads: p}
	if value := r.opened(payload.Input, execution, list); r.unread != nil || string(value) != "[1,2]" {
		t.Errorf("the list is %s, %v", value, r.unread)
	}
	r = fields{}
	if value := r.opened(payload.Input, execution, list); !errors.Is(r.unread, payload.ErrKeyMissing) ||
		!errors.Is(payload.Check(value), payload.ErrKeyMissing) {
		t.Errorf("without the key, the list is %q, %v", value, r.unread)
	}
	for stored, is := range map[string]bool{"[1]": true, "": true, string(list): false, "\x01F\x02\x00": false} {
		if IsValue([]byte(stored)) != is {
			t.Errorf("%q is a value: %t", stored, !is)
		}
	}
}

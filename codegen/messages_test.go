package main

import (
	"strings"
	"testing"

	lualib "github.com/yuin/gopher-lua"
)

func messageLibrary(text string) (*library, error) {
	var p problems
	l := readHeaders([]sourceFile{{"x.lua", text}}, &p)
	checkMessages(l, &p)
	return l, p.err()
}

func TestMessagesAreChecked(t *testing.T) {
	t.Parallel()
	const header = "-- @template channel.wake ffx:wake:{lane_id}\n-- @message work channel.wake work {partition} {number}\n"
	for _, x := range []struct{ more, want string }{
		{"", ""},
		{"-- @message none channel.wake none {partition}\n", ""},
		{"-- @message work channel.wake other {partition}\n", "x.lua:3: message work is declared at x.lua:2 already"},
		{"-- @message more channel.wake work {partition}\n", "x.lua:3: messages work and more of channel.wake cannot be told apart"},
		{"-- @message here channel.gone here {id}\n", "x.lua:3: message here: no template channel.gone of a channel"},
		{"-- @message here channel.wake here {id} {id}\n", "x.lua:3: message here has two parameters id"},
		{"-- @message here channel.wake\n", "x.lua:3: @message needs a name, channels and a text"},
	} {
		_, err := messageLibrary(header + x.more)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%q:\n got %q\nwant %q", x.more, got, x.want)
		}
	}
}

func TestMessagesOfLua(t *testing.T) {
	t.Parallel()
	l, err := messageLibrary("-- @template channel.due ffx:due\n-- @template channel.worker ffx:worker:{worker_instance_id}\n" +
		"-- @message due channel.due {family}{partition} {at}\n-- @message cancel channel.worker cancel {execution_id} {lease_id} {reason}\n")
	if err != nil {
		t.Fatal(err)
	}
	state := lualib.NewState()
	defer state.Close()
	const tests = `
assert(message.due('q', '7', '12') == 'q7 12')
assert(message.due('', '7', '12') == '7 12')
assert(message.cancel('e', '', 'its time is up') == 'cancel e  its time is up')
`
	if err := state.DoString("message = {}\n" + emitMessages(l) + tests); err != nil {
		t.Fatal(err)
	}
}

package transport

import (
	"slices"
	"strconv"
	"testing"
)

func TestMailboxKeepsOrderAndLeavesOutRepeats(t *testing.T) {
	t.Parallel()
	box := newMailbox()
	for _, l := range []letter{{"a", "1"}, {"b", "1"}, {"a", "1"}, {"a", "2"}, {"a", "1"}} {
		box.put(l)
	}
	letters, dropped, open := box.take()
	want := []letter{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"a", "1"}}
	if !slices.Equal(letters, want) || dropped || !open {
		t.Errorf("%v %v %v", letters, dropped, open)
	}
	box.put(letter{"a", "1"})
	if letters, _, _ := box.take(); len(letters) != 1 {
		t.Errorf("a message is left out although the one before was taken: %v", letters)
	}
	box.close()
	if _, _, open := box.take(); open {
		t.Error("closed")
	}
}

func TestMailboxDropsBeyondItsBound(t *testing.T) {
	t.Parallel()
	box := newMailbox()
	for i := range maxLetters + 10 {
		box.put(letter{"a", strconv.Itoa(i)})
	}
	if letters, dropped, _ := box.take(); len(letters) != 0 || !dropped {
		t.Errorf("%d letters, dropped %v", len(letters), dropped)
	}
	box.put(letter{"a", "1"})
	if letters, dropped, _ := box.take(); len(letters) != 1 || dropped {
		t.Errorf("%d letters, dropped %v", len(letters), dropped)
	}
}

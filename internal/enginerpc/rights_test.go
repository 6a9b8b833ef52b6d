package enginerpc

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// enough are the rights that an application needs if an administrator has loaded the library.
const enough = "~ff:* &ff:* +@read +@write +@connection +publish +subscribe +unsubscribe +fcall +function|list +time -@dangerous"

// userOn connects as a user with the given rights.
func userOn(t *testing.T, s *testserver.Server, name, rights string) rueidis.Client {
	t.Helper()
	admin := clientFor(t, s.Addr())
	words := append([]string{"SETUSER", name, "reset", "on", ">pw"}, strings.Fields(rights)...)
	if err := admin.Do(t.Context(), admin.B().Arbitrary("ACL").Args(words...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return clientFor(t, s.Addr(), func(o *rueidis.ClientOption) { o.Username, o.Password = name, "pw" })
}

func TestConnectRefusesAUserWithoutRightsBeforeItWrites(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, testserver.Options{Kind: kind})
		for name, x := range map[string]struct{ rights, rule string }{
			"no-channels":    {"~ff:* +@all resetchannels", "&ff:*"},
			"other-channels": {"~ff:* +@all resetchannels &other:*", "&ff:*"},
			"few-channels":   {"~ff:* +@all resetchannels &ff:ffx:*", "&ff:*"},
			"no-publish":     {"~ff:* &ff:* +@all -publish", "+publish"},
			"no-subscribe":   {"~ff:* &ff:* +@all -subscribe", "+subscribe"},
			"no-keys":        {"~other:* &ff:* +@all", "~ff:*"},
			"only-reads":     {"%R~ff:* &ff:* +@all", "~ff:*"},
			"no-data":        {"~ff:* &ff:* +@connection +@pubsub +function +fcall", "+@write"},
		} {
			_, err := Connect(t.Context(), userOn(t, s, name, x.rights), Options{})
			var lacks *enginecore.RightsError
			if !errors.Is(err, enginecore.ErrUnauthorized) || !errors.As(err, &lacks) || !slices.Contains(lacks.Rules, x.rule) ||
				!strings.Contains(err.Error(), x.rule) {
				t.Errorf("%s: %v", name, err)
			}
		}
		admin := clientFor(t, s.Addr())
		keys, err := admin.Do(t.Context(), admin.B().Dbsize().Build()).AsInt64()
		if functions, listErr := listFunctions(t.Context(), admin); err != nil || listErr != nil || keys > 0 || functions != nil {
			t.Errorf("written: %d keys (%v), functions %v (%v)", keys, err, functions, listErr)
		}
	})
}

func TestRightsOfAServerInUse(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, testserver.Options{Kind: kind})
		if _, err := Connect(t.Context(), clientFor(t, s.Addr()), Options{}); err != nil {
			t.Fatal(err)
		}
		app, err := Connect(t.Context(), userOn(t, s, "app", enough), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := app.CheckRights(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			rights string
			rules  []string
		}{
			{"-zadd", []string{"+zadd"}},
			{"-zadd -hget", []string{"+hget", "+zadd"}},
			{"-time", []string{"+time"}},
			{"-publish", []string{"+publish"}},
			{"resetchannels", []string{"&ff:*", "+publish", "+subscribe"}},
			{"resetchannels &ff:ffx:*", []string{"&ff:*", "+publish", "+subscribe"}},
			{"resetkeys %R~ff:*", []string{"~ff:*", "+@write"}},
			{"resetkeys", []string{"~ff:*", "+@read", "+@write"}},
		} {
			name := "lacks-" + strings.NewReplacer(" ", "", "*", "", "&", "", "%", "", "~", "").Replace(x.rights)
			_, err := Connect(t.Context(), userOn(t, s, name, enough+" "+x.rights), Options{})
			var lacks *enginecore.RightsError
			if !errors.As(err, &lacks) || !errors.Is(err, enginecore.ErrUnauthorized) {
				t.Errorf("%s: %v", x.rights, err)
			} else if !slices.Equal(lacks.Rules, x.rules) {
				t.Errorf("%s: rules %v, want %v", x.rights, lacks.Rules, x.rules)
			}
		}
		// With a foreign library on the server, the rights on channels count as well.
		_, err = Connect(t.Context(), userOn(t, s, "contract", enough+" resetchannels"), Options{ContractOnly: true})
		if !errors.Is(err, enginecore.ErrUnauthorized) || !strings.Contains(err.Error(), "&ff:*") {
			t.Errorf("contract mode: %v", err)
		}
		// The check of a program that runs finds out, too.
		admin := clientFor(t, s.Addr())
		if err := admin.Do(t.Context(), admin.B().Arbitrary("ACL").Args("SETUSER", "app", "resetchannels").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := app.Check(t.Context()); !errors.Is(err, enginecore.ErrUnauthorized) || !strings.Contains(err.Error(), "&ff:*") {
			t.Errorf("check: %v", err)
		}
	})
}

// A command of the library whose right is not checked would break a call half-way.
func TestRightsCoverTheLibrary(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{"PUBLISH": true}
	for _, list := range []string{readCommands, writeCommands, otherCommands} {
		for command := range strings.SplitSeq(list, "|") {
			name, _, _ := strings.Cut(command, " ")
			covered[name] = true
		}
	}
	for _, m := range regexp.MustCompile(`redis\.call\(\s*'([A-Z]+)'|call\.chunked\('([A-Z]+)'`).FindAllStringSubmatch(lualib.Source(), -1) {
		if name := m[1] + m[2]; !covered[name] {
			t.Errorf("%s is used, but its right is not checked", name)
		}
	}
	// Commands that may fail for lack of a right must not abort the call.
	if n := strings.Count(lualib.Source(), "'PUBLISH'"); n != 1 {
		t.Errorf("%d places publish, not wake.send alone", n)
	}
}

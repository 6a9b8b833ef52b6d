package enginetest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// restrictedVariable makes New give each test a user of its own on real servers, with the rights of an application and nothing
// else.
const restrictedVariable = "FLOWFABRIC_TEST_RESTRICTED"

const usersPassword = "of no use outside of tests"

// NewRestricted opens the engine as a user that has the rights of an application on its own prefix. Another one, with those of a
// deployer, has loaded the library before.
func NewRestricted(tb testing.TB, kind testserver.Kind, opts ...runtime.OpenOption) *Bench {
	tb.Helper()
	shared := URL(tb, kind)
	operator := Connect(tb, shared)
	prefix := NewPrefix()
	deployer := AddUser(tb, operator, shared, "deployer-of-"+prefix, prefix, enginecore.DeployerRules)
	engine, err := runtime.Open(Context(tb), deployer, append([]runtime.OpenOption{runtime.Prefix(prefix), runtime.Partitions(4)}, opts...)...)
	require.NoError(tb, err)
	require.NoError(tb, engine.Close())
	b := Open(tb, kind, AddUser(tb, operator, shared, prefix, prefix, enginecore.ApplicationRules), prefix, opts...)
	b.operator = operator
	return b
}

// AddUser makes a user of the server with rules for a prefix, which is removed with the test, and returns the server's URL with
// its name and password.
func AddUser(tb testing.TB, operator rueidis.Client, server, name, prefix string, rules func(prefix string) (string, error)) string {
	tb.Helper()
	ctx := Context(tb)
	text, err := rules(prefix)
	require.NoError(tb, err)
	words := append([]string{"ACL", "SETUSER", name, "on", ">" + usersPassword}, strings.Fields(text)...)
	require.NoError(tb, operator.Do(ctx, operator.B().Arbitrary(words...).Build()).Error())
	tb.Cleanup(func() {
		if err := operator.Do(ctx, operator.B().Arbitrary("ACL", "DELUSER", name).Build()).Error(); err != nil {
			tb.Errorf("remove user %s: %v", name, err)
		}
	})
	u, err := url.Parse(server)
	require.NoError(tb, err)
	u.User = url.UserPassword(name, usersPassword)
	return u.String()
}

// Connect opens a connection that may do everything; it is closed with the test.
func Connect(tb testing.TB, server string) rueidis.Client {
	tb.Helper()
	option, err := rueidis.ParseURL(server)
	require.NoError(tb, err)
	option.DisableCache, option.ForceSingleClient = true, true
	client, err := rueidis.NewClient(option)
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

// Operator is a connection that may do everything.
func (b *Bench) Operator() rueidis.Client {
	if b.operator != nil {
		return b.operator
	}
	return b.Engine.Core().Client()
}

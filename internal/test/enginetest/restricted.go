package enginetest

import (
	"cmp"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// restrictedVariable makes New give each test a user of its own on real servers, with the rights of an application and
// nothing else.
const restrictedVariable = "FLOWFABRIC_TEST_RESTRICTED"

const usersPassword = "of no use outside of tests"

// NewRestricted opens the engine as a user with an application's rights on its own prefix. Another user, with a
// deployer's rights, has loaded the library before.
func NewRestricted(tb testing.TB, kind testserver.Kind, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	shared := URL(tb, kind)
	var operators []rueidis.Client
	if kind == testserver.OnCluster {
		for _, node := range testserver.SharedCluster(tb).Nodes {
			operators = append(operators, Connect(tb, node.URL()))
		}
	} else {
		operators = []rueidis.Client{Connect(tb, shared)}
	}
	c := atMostOne(tb, config)
	prefix := prefixFor(c)
	deployer := AddUser(tb, operators, shared, "deployer-of-"+prefix, prefix, enginecore.DeployerRules)
	c.Prefix, c.Partitions = prefix, cmp.Or(c.Partitions, 4)
	deploying := c
	deploying.Backend = engine.ContractBackend{} // contract mode loads no library
	deployed, err := runtime.Open(Context(tb), deployer, deploying)
	require.NoError(tb, err)
	require.NoError(tb, deployed.Close())
	b := Open(tb, kind, AddUser(tb, operators, shared, prefix, prefix, enginecore.ApplicationRules), prefix, c)
	b.operators = operators
	return b
}

// AddUser makes a user with rules for a prefix on the servers of operators, which is removed with the test, and returns
// the URL with its name and password.
func AddUser(
	tb testing.TB, operators []rueidis.Client, server, name, prefix string, rules func(prefix string) (string, error),
) string {
	tb.Helper()
	ctx := Context(tb)
	text, err := rules(prefix)
	require.NoError(tb, err)
	words := append([]string{"ACL", "SETUSER", name, "on", ">" + usersPassword}, strings.Fields(text)...)
	for _, operator := range operators {
		require.NoError(tb, operator.Do(ctx, operator.B().Arbitrary(words...).Build()).Error())
		tb.Cleanup(func() {
			if err := operator.Do(ctx, operator.B().Arbitrary("ACL", "DELUSER", name).Build()).Error(); err != nil {
				tb.Errorf("remove user %s: %v", name, err)
			}
		})
	}
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

// Operator is a connection that may do everything; of a restricted user on a cluster, on one of its servers.
func (b *Bench) Operator() rueidis.Client {
	if len(b.operators) > 0 {
		return b.operators[0]
	}
	return engine.ConnOf(b.Engine.Internal()).Client()
}

// Operators are connections that may do everything, to each server of a restricted user.
func (b *Bench) Operators() []rueidis.Client { return b.operators }

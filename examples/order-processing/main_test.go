package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

func TestMain(m *testing.M) { enginetest.MainOnServers(m) }

// wantReports is the expected output of the program.
const wantReports = `order  customer  charged  refunded  outcome
1001   Ada       99.00    0.00      shipped
1002   Bob       0.00     0.00      failed: card declined
1003   Cleo      974.00   0.00      shipped
1004   Dan       1798.00  1798.00   cancelled: Dan has changed their mind
1005   Eve       0.00     0.00      failed: only 2 of bowl in stock
1006   Finn      899.00   899.00    failed: rejected in its review
1007   Gus       37.50    37.50     failed: address unknown
1008   Ada       49.00    0.00      shipped

item     on the shelf  reserved  shipped
bowl     2             0         0
cup      30            0         10
machine  4             0         1
pot      1             0         2

account    balance
4000-0001  8927.00
4000-0002  10000.00
4000-0003  951.00
shop       1122.00
`

// TestProgram runs the whole program in this process, on each kind of engine.
func TestProgram(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			url := "embedded:"
			if kind != testserver.Embedded {
				url = testserver.Start(t, testserver.Options{Kind: kind}).URL()
			}
			shop := openShop()
			var stdout, stderr strings.Builder
			err := trade(t.Context(), options{engine: url}, shop, &stdout, &stderr)
			require.NoError(t, err, stderr.String())
			require.Equal(t, wantReports, stdout.String())
			require.Empty(t, stderr.String())
			checkBooks(t, shop, openShop())

			// A customer's second order begins when the first one has ended.
			var ada []string
			for _, e := range shop.ledger.Entries() {
				if e.Customer == "Ada" {
					ada = append(ada, e.Order)
				}
			}
			require.Equal(t, []string{"1001", "1008"}, ada)
		})
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"-help"}, 0, "Usage: order-processing [flags]", ""},
		{[]string{"-explain"}, 0, "order-processing: ", ""},
		{[]string{"-speed", "11"}, exitUsage, "", "not defined: -speed"},
		{[]string{"now"}, exitUsage, "", `arguments ["now"]: there must be none`},
		{[]string{"-engine", "gopher://hole"}, exitFailure, "", `-engine: `},
	} {
		var stdout, stderr strings.Builder
		require.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr), c.args)
		require.Contains(t, stdout.String(), c.stdout, c.args)
		require.Contains(t, stderr.String(), c.stderr, c.args)
	}
}
